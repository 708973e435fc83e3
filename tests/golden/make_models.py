#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes small random-weight GGUF models, one or more per architecture, for tests against another implementation.

    make_models.py OUT_DIR [NAME...]      all models, or those named
    make_models.py --list

For each NAME: OUT_DIR/NAME.gguf and OUT_DIR/NAME.tokens (ids of one sequence, from position 0; an adapter has none).
The reference is not made here: it is what llama.cpp gives for these two files on one thread with an f32 cache, its GELU
computed exactly instead of by its 16-bit table. For a file with quantised tensors it is made from the twin NAME-f32.

Rules that keep the files useful:
1. Same name, same bytes, on every machine (see gguf_random.py).
2. Every part matters: biases, norm weights, scales, windows and factors are large enough that leaving one out moves the
   logits far more than rounding does. Logits are of order 1 to 10.
3. Key names and tensor names are those found in published files of that architecture.
4. Values of keys differ from the defaults that loaders have, so that a key that is not read shows.
"""

import os
import sys

sys.dont_write_bytecode = True  # The source tree stays clean.

from gguf_random import BOOL, F32, STRING, Model, dequantised, vocab_spm, vocab_wordpiece


# Parts that most architectures are made of.


class Shape:
    """Sizes of a model. head is the size of one head; rot how much of it is rotated."""

    def __init__(self, embd=64, layers=2, heads=4, kv=2, ff=96, head=None, rot=None, ctx=256):
        self.embd, self.layers, self.heads, self.kv, self.ff, self.ctx = embd, layers, heads, kv, ff, ctx
        self.head = head or embd // heads
        self.rot = self.head if rot is None else rot


# Not the usual values, see rule 4.
EPS = 0.01
ROPE_BASE = 7000.0

# Size of token embeddings that are also the output matrix: small enough for logits of order 1 to 10.
TIED = 0.3

# Four layers where a pattern over layers has to show, still a small file.
DEEP = dict(embd=48, layers=4, heads=3, kv=1, ff=80)


def start(name, arch, s, family=None, layer_norm=False, rope=True):
    """A model with the keys that every architecture has, and its vocabulary."""
    m = Model(name, arch, family)
    m.u32("context_length", s.ctx)
    m.u32("embedding_length", s.embd)
    m.u32("block_count", s.layers)
    m.u32("feed_forward_length", s.ff)
    m.u32("attention.head_count", s.heads)
    m.u32("attention.head_count_kv", s.kv)
    m.f32("attention.layer_norm_epsilon" if layer_norm else "attention.layer_norm_rms_epsilon", EPS)
    if s.head * s.heads != s.embd:
        m.u32("attention.key_length", s.head)
        m.u32("attention.value_length", s.head)
    if rope:
        m.u32("rope.dimension_count", s.rot)
        m.f32("rope.freq_base", ROPE_BASE)
    return m


def embed(m, s, sigma=1.0):
    m.vec("token_embd.weight", s.embd, m.n_vocab, sigma=sigma)


def head(m, s, norm_bias=False, tied=False, bias=False, gain=2.0):
    m.norm("output_norm.weight", s.embd)
    if norm_bias:
        m.vec("output_norm.bias", s.embd)
    if not tied:
        m.mat("output.weight", s.embd, m.n_vocab, gain)
    if bias:
        m.vec("output.bias", m.n_vocab, sigma=1.0)


def attention(m, s, i, bias=False, out_bias=False, fused=False, gain=1.4):
    """Projections of layer i. Queries and keys get some gain so that attention is neither flat nor one-hot."""
    b = "blk.%d." % i
    n_q, n_kv = s.head * s.heads, s.head * s.kv
    if fused:
        m.mat(b + "attn_qkv.weight", s.embd, n_q + 2 * n_kv, gain)
        if bias:
            m.vec(b + "attn_qkv.bias", n_q + 2 * n_kv)
    else:
        for part, n, g in (("q", n_q, gain), ("k", n_kv, gain), ("v", n_kv, 1.0)):
            m.mat(b + "attn_%s.weight" % part, s.embd, n, g)
            if bias:
                m.vec(b + "attn_%s.bias" % part, n)
    m.mat(b + "attn_output.weight", n_q, s.embd)
    if out_bias:
        m.vec(b + "attn_output.bias", s.embd)


def norm(m, s, i, which, bias=False):
    m.norm("blk.%d.%s.weight" % (i, which), s.embd)
    if bias:
        m.vec("blk.%d.%s.bias" % (i, which), s.embd)


def qk_norm(m, s, i):
    """Norms of heads, the same for all heads."""
    m.norm("blk.%d.attn_q_norm.weight" % i, s.head)
    m.norm("blk.%d.attn_k_norm.weight" % i, s.head)


def up_to_ffn(m, s, i, qk=False, **how):
    """The part of a llama layer before its network."""
    norm(m, s, i, "attn_norm")
    attention(m, s, i, **how)
    if qk:
        qk_norm(m, s, i)
    norm(m, s, i, "ffn_norm")


def biased_block(m, s, i, **how):
    """A layer with biases everywhere and a network without a gate."""
    norm(m, s, i, "attn_norm", bias=True)
    attention(m, s, i, **how)
    norm(m, s, i, "ffn_norm", bias=True)
    ffn(m, s, i, gate=False, bias=True)


def ffn(m, s, i, gate=True, bias=False, gain=1.3):
    b = "blk.%d." % i
    for part in ("gate", "up") if gate else ("up",):
        m.mat(b + "ffn_%s.weight" % part, s.embd, s.ff, gain)
        if bias:
            m.vec(b + "ffn_%s.bias" % part, s.ff)
    m.mat(b + "ffn_down.weight", s.ff, s.embd, gain)
    if bias:
        m.vec(b + "ffn_down.bias", s.embd)


def fused_ffn(m, s, i):
    """Gate and up in one matrix."""
    m.mat("blk.%d.ffn_up.weight" % i, s.embd, 2 * s.ff, 1.3)
    m.mat("blk.%d.ffn_down.weight" % i, s.ff, s.embd, 1.3)


def experts(m, s, i, n_expert, n_ff):
    """Routed experts. The router's gain keeps the chosen experts well apart from the others, whatever the rounding."""
    b = "blk.%d." % i
    m.mat(b + "ffn_gate_inp.weight", s.embd, n_expert, 1.5)
    m.mat(b + "ffn_gate_exps.weight", s.embd, n_ff, 1.3, n_expert)
    m.mat(b + "ffn_up_exps.weight", s.embd, n_ff, 1.3, n_expert)
    m.mat(b + "ffn_down_exps.weight", n_ff, s.embd, 1.3, n_expert)


def shared_expert(m, s, i, n_ff):
    b = "blk.%d." % i
    m.mat(b + "ffn_gate_shexp.weight", s.embd, n_ff, 1.3)
    m.mat(b + "ffn_up_shexp.weight", s.embd, n_ff, 1.3)
    m.mat(b + "ffn_down_shexp.weight", n_ff, s.embd, 1.3)


# Architectures


def phi2(name, fused):
    s = Shape(kv=4 if fused else 2, ff=128, rot=8)
    m = start(name, "phi2", s, family="phi2", layer_norm=True)
    vocab_spm(m)
    embed(m, s)
    for i in range(s.layers):
        norm(m, s, i, "attn_norm", bias=True)
        attention(m, s, i, bias=True, out_bias=True, fused=fused)
        ffn(m, s, i, gate=False, bias=True)
    head(m, s, norm_bias=True, bias=True)
    return m


def stablelm(name, bias=False, parallel=False, qk_norm=False):
    s = Shape(rot=4)
    m = start(name, "stablelm", s, family="stablelm", layer_norm=True)
    m.flag("use_parallel_residual", parallel)
    vocab_spm(m)
    embed(m, s)
    for i in range(s.layers):
        norm(m, s, i, "attn_norm", bias=True)
        attention(m, s, i, bias=bias)
        if qk_norm:
            m.norm("blk.%d.attn_q_norm.weight" % i, s.head, s.heads)
            m.norm("blk.%d.attn_k_norm.weight" % i, s.head, s.kv)
        if not parallel:
            norm(m, s, i, "ffn_norm", bias=True)
        ffn(m, s, i)
    head(m, s, norm_bias=True)
    return m


def olmo2(name, window=0):
    s = Shape(**DEEP) if window else Shape()
    m = start(name, "olmo2", s)
    if window:
        m.u32("attention.sliding_window", window)
        m.keys("olmo2.attention.sliding_window_pattern", BOOL, [True, True, True, False])
        yarn(m, 4.0, 64)
    vocab_spm(m)
    embed(m, s)
    for i in range(s.layers):
        attention(m, s, i)
        m.norm("blk.%d.attn_q_norm.weight" % i, s.head * s.heads)
        m.norm("blk.%d.attn_k_norm.weight" % i, s.head * s.kv)
        norm(m, s, i, "post_attention_norm")
        ffn(m, s, i)
        norm(m, s, i, "post_ffw_norm")
    head(m, s)
    return m


def olmo(name):
    s = Shape()
    m = start(name, "olmo", s, layer_norm=True)
    m.f32("attention.clamp_kqv", 1.5)
    vocab_spm(m)
    embed(m, s)
    for i in range(s.layers):
        attention(m, s, i)
        ffn(m, s, i)
    m.mat("output.weight", s.embd, m.n_vocab, 2.0)
    return m


def granite(name, n_expert=0, shared=False):
    s = Shape(ff=32 if n_expert else 96)
    m = start(name, "granitemoe" if n_expert else "granite", s)
    m.f32("embedding_scale", 3.0)
    m.f32("residual_scale", 0.6)
    m.f32("attention.scale", 0.15)
    m.f32("logit_scale", 1.6)
    if n_expert:
        m.u32("expert_count", n_expert)
        m.u32("expert_used_count", 2)
    if shared:
        m.u32("expert_shared_feed_forward_length", 48)
    vocab_spm(m)
    embed(m, s, sigma=TIED)
    for i in range(s.layers):
        up_to_ffn(m, s, i, gain=2.0)
        if n_expert:
            experts(m, s, i, n_expert, s.ff)
            if shared:
                shared_expert(m, s, i, 48)
        else:
            ffn(m, s, i)
    head(m, s, tied=True)
    return m


def command_r(name, qk_norm=False):
    # The variant with q/k norms is told by its depth: published ones have 64 layers, and loaders look for the norms
    # from there on.
    s = Shape(embd=16, layers=64, heads=2, kv=1, ff=16) if qk_norm else Shape()
    m = start(name, "command-r", s, layer_norm=True)
    m.f32("logit_scale", 1.5 if qk_norm else 0.8)
    vocab_spm(m)
    embed(m, s, sigma=TIED)
    for i in range(s.layers):
        norm(m, s, i, "attn_norm")
        attention(m, s, i)
        if qk_norm:
            m.norm("blk.%d.attn_q_norm.weight" % i, s.head, s.heads)
            m.norm("blk.%d.attn_k_norm.weight" % i, s.head, s.kv)
        ffn(m, s, i)
    head(m, s, tied=True)
    return m


def cohere2(name, period=0):
    """Without a period in the file every fourth layer sees everything."""
    s = Shape(**DEEP)
    m = start(name, "cohere2", s, family="cohere2", layer_norm=True)
    m.f32("logit_scale", 1.3)
    m.u32("attention.sliding_window", 8)
    if period:
        m.u32("attention.sliding_window_pattern", period)
    vocab_spm(m)
    embed(m, s, sigma=TIED)
    for i in range(s.layers):
        norm(m, s, i, "attn_norm")
        attention(m, s, i)
        ffn(m, s, i)
    head(m, s, tied=True)
    return m


def starcoder2(name, tied):
    s = Shape(ff=128)
    m = start(name, "starcoder2", s, family="starcoder2", layer_norm=True)
    vocab_spm(m)
    embed(m, s, sigma=TIED if tied else 1.0)
    for i in range(s.layers):
        biased_block(m, s, i, bias=True, out_bias=True)
    head(m, s, norm_bias=True, tied=tied)
    return m


def smollm3(name):
    s = Shape(**DEEP)
    m = start(name, "smollm3", s)
    vocab_spm(m)
    embed(m, s, sigma=TIED)
    for i in range(s.layers):
        up_to_ffn(m, s, i)
        ffn(m, s, i)
    head(m, s, tied=True)
    return m


def yarn(m, factor, original, attn_factor=None):
    m.text("rope.scaling.type", "yarn")
    m.f32("rope.scaling.factor", factor)
    m.u32("rope.scaling.original_context_length", original)
    if attn_factor is not None:
        m.f32("rope.scaling.attn_factor", attn_factor)


def gpt_oss(name):
    s = Shape(layers=3, head=24, ff=32, ctx=512)
    n_expert = 4
    m = start(name, "gpt-oss", s)
    m.u32("expert_feed_forward_length", s.ff)
    m.u32("expert_count", n_expert)
    m.u32("expert_used_count", 2)
    m.u32("attention.sliding_window", 8)
    yarn(m, 8.0, 64)
    vocab_spm(m)
    embed(m, s)
    for i in range(s.layers):
        b = "blk.%d." % i
        norm(m, s, i, "attn_norm")
        attention(m, s, i, bias=True, out_bias=True)
        m.vec(b + "attn_sinks.weight", s.heads, sigma=1.5)
        norm(m, s, i, "post_attention_norm")
        m.mat(b + "ffn_gate_inp.weight", s.embd, n_expert, 1.5)
        m.vec(b + "ffn_gate_inp.bias", n_expert, sigma=0.5)
        # Block scales of 1/4 to 1 over 64 inputs: gates and ups reach beyond the limit of 7, where they are cut.
        m.mxfp4(b + "ffn_gate_exps.weight", s.embd, s.ff, n_expert, (124, 125, 126))
        m.vec(b + "ffn_gate_exps.bias", s.ff, n_expert, sigma=1.0)
        m.mxfp4(b + "ffn_up_exps.weight", s.embd, s.ff, n_expert, (122, 123, 125))
        m.vec(b + "ffn_up_exps.bias", s.ff, n_expert, sigma=1.0)
        m.mxfp4(b + "ffn_down_exps.weight", s.ff, s.embd, n_expert, (118, 119, 120))
        m.vec(b + "ffn_down_exps.bias", s.embd, n_expert, sigma=0.5)
    head(m, s)
    m.n_tokens = 40
    return m


def encoder(name, arch, s, family=None, rope=False):
    m = start(name, arch, s, family, layer_norm=True, rope=rope)
    m.flag("attention.causal", False)
    m.u32("pooling_type", 1)
    vocab_wordpiece(m)
    embed(m, s)
    m.vec("token_types.weight", s.embd, 2, sigma=0.7)
    if arch == "bert":
        m.vec("position_embd.weight", s.embd, s.ctx, sigma=0.7)
    m.norm("token_embd_norm.weight", s.embd)
    m.vec("token_embd_norm.bias", s.embd)
    return m


def bert(name, classifier=False):
    s = Shape(kv=4, ff=128, ctx=64)
    m = encoder(name, "bert", s, family="bert")
    for i in range(s.layers):
        attention(m, s, i, bias=True, out_bias=True)
        norm(m, s, i, "attn_output_norm", bias=True)
        ffn(m, s, i, gate=False, bias=True)
        norm(m, s, i, "layer_output_norm", bias=True)
    if classifier:
        m.mat("cls.weight", s.embd, s.embd, 1.0)
        m.vec("cls.bias", s.embd)
        m.mat("cls.output.weight", s.embd, 1, 2.0)
        m.vec("cls.output.bias", 1, sigma=1.0)
    return m


def nomic_bert(name):
    s = Shape(kv=4, ctx=128)
    m = encoder(name, "nomic-bert", s, rope=True)
    for i in range(s.layers):
        attention(m, s, i, fused=True)
        norm(m, s, i, "attn_output_norm", bias=True)
        ffn(m, s, i)
        norm(m, s, i, "layer_output_norm", bias=True)
    return m


def jina_bert_v2(name, code=False):
    """The code variant has norms over whole rows of queries and keys, a second norm after attention, and gate and up in
    one matrix."""
    s = Shape(kv=4, ctx=128)
    m = encoder(name, "jina-bert-v2", s, family="jina-bert-v2")
    for i in range(s.layers):
        b = "blk.%d." % i
        attention(m, s, i, bias=True, out_bias=True, gain=2.0)
        if code:
            for part in ("q", "k"):
                norm(m, s, i, "attn_%s_norm" % part, bias=True)
            norm(m, s, i, "attn_norm_2", bias=True)
        norm(m, s, i, "attn_output_norm", bias=True)
        if code:
            m.mat(b + "ffn_up.weight", s.embd, 2 * s.ff, 1.3)
        else:
            m.mat(b + "ffn_gate.weight", s.embd, s.ff, 1.3)
            m.mat(b + "ffn_up.weight", s.embd, s.ff, 1.3)
        m.mat(b + "ffn_down.weight", s.ff, s.embd, 1.3)
        m.vec(b + "ffn_down.bias", s.embd)
        norm(m, s, i, "layer_output_norm", bias=True)
    return m


def nomic_bert_moe(name):
    """Experts without a gate in every second layer, the second one first."""
    s = Shape(kv=4, ff=64, ctx=128)
    m = encoder(name, "nomic-bert-moe", s, rope=True)
    m.u32("moe_every_n_layers", 2)
    m.u32("expert_count", 4)
    m.u32("expert_used_count", 2)
    for i in range(s.layers):
        b = "blk.%d." % i
        attention(m, s, i, bias=True, out_bias=True, fused=True)
        norm(m, s, i, "attn_output_norm", bias=True)
        if i % 2 == 1:
            m.mat(b + "ffn_gate_inp.weight", s.embd, 4, 1.5)
            m.mat(b + "ffn_up_exps.weight", s.embd, s.ff, 1.3, 4)
            m.mat(b + "ffn_down_exps.weight", s.ff, s.embd, 2.0, 4)
        else:
            ffn(m, s, i, gate=False, bias=True)
        norm(m, s, i, "layer_output_norm", bias=True)
    return m


def jina_bert_v3(name):
    s = Shape(kv=4, ff=128, ctx=128)
    m = encoder(name, "jina-bert-v3", s, rope=True)
    for i in range(s.layers):
        attention(m, s, i, bias=True, out_bias=True, fused=True)
        norm(m, s, i, "attn_output_norm", bias=True)
        ffn(m, s, i, gate=False, bias=True)
        norm(m, s, i, "layer_output_norm", bias=True)
    return m


def modern_bert(name):
    """Norms before the blocks and without bias, none before the first attention; every third layer, from the first on,
    sees everything, the others as far as half the window to both sides, with a rotation of their own."""
    s = Shape(embd=48, layers=4, heads=3, kv=3, ff=64, ctx=128)
    m = start(name, "modern-bert", s, layer_norm=True)
    m.f32("rope.freq_base_swa", 300.0)
    m.u32("attention.sliding_window", 10)
    m.u32("attention.sliding_window_pattern", 3)
    m.flag("attention.causal", False)
    m.u32("pooling_type", 1)
    vocab_wordpiece(m)
    embed(m, s)
    m.norm("token_embd_norm.weight", s.embd)
    for i in range(s.layers):
        if i > 0:
            norm(m, s, i, "attn_norm")
        attention(m, s, i, fused=True)
        norm(m, s, i, "ffn_norm")
        fused_ffn(m, s, i)
    m.norm("output_norm.weight", s.embd)
    return m


def llama(name, keys=None, bias=False, ffn_bias=False, tied=False, arch="llama", s=None):
    """A llama block, with what `keys` (called with the model) adds to the metadata."""
    s = s or Shape()
    m = start(name, arch, s, family="llama")
    if keys:
        keys(m)
    vocab_spm(m)
    embed(m, s, sigma=TIED if tied else 1.0)
    for i in range(s.layers):
        up_to_ffn(m, s, i, bias=bias, out_bias=bias and arch == "llama")
        ffn(m, s, i, bias=ffn_bias)
    head(m, s, tied=tied)
    return m


def rope_linear(m):
    m.text("rope.scaling.type", "linear")
    m.f32("rope.scaling.factor", 4.0)


def mistral3_keys(m):
    yarn(m, 4.0, 16)
    m.f32("rope.scaling.yarn_beta_fast", 0.5)
    m.f32("rope.scaling.yarn_beta_slow", 0.05)
    m.f32("rope.scaling.yarn_log_multiplier", 1.0)
    m.f32("attention.temperature_scale", 0.3)


def qwen3_yarn(name):
    s = Shape(embd=64, heads=4, kv=2, head=24)
    m = start(name, "qwen3", s)
    yarn(m, 4.0, 64)
    vocab_spm(m)
    embed(m, s)
    for i in range(s.layers):
        up_to_ffn(m, s, i, qk=True)
        ffn(m, s, i)
    head(m, s)
    return m


def qwen2moe(name):
    s = Shape(ff=48)
    m = start(name, "qwen2moe", s)
    m.u32("expert_count", 6)
    m.u32("expert_used_count", 3)
    m.u32("expert_feed_forward_length", 16)
    m.u32("expert_shared_feed_forward_length", 40)
    vocab_spm(m)
    embed(m, s)
    for i in range(s.layers):
        up_to_ffn(m, s, i, bias=True)
        experts(m, s, i, 6, 16)
        m.vec("blk.%d.ffn_gate_inp_shexp.weight" % i, s.embd, sigma=0.2)
        shared_expert(m, s, i, 40)
    head(m, s)
    return m


def phi3_longrope(name, original, window=0):
    """Which of the two factor tables is used depends on the context size against the original one."""
    s = Shape(rot=12, ff=64, ctx=256)
    m = start(name, "phi3", s, family="phi3")
    m.u32("rope.scaling.original_context_length", original)
    m.f32("rope.scaling.attn_factor", 1.19)
    if window:
        m.u32("attention.sliding_window", window)
    vocab_spm(m)
    embed(m, s)
    m.vec("rope_factors_long.weight", s.rot // 2, low=1.5, high=8.0)
    m.vec("rope_factors_short.weight", s.rot // 2, low=1.0, high=1.5)
    for i in range(s.layers):
        up_to_ffn(m, s, i, fused=True)
        fused_ffn(m, s, i)
    head(m, s)
    return m


def mixtral(name):
    s = Shape(ff=48)
    m = start(name, "llama", s, family="llama")
    m.u32("expert_count", 4)
    m.u32("expert_used_count", 2)
    vocab_spm(m)
    embed(m, s)
    for i in range(s.layers):
        up_to_ffn(m, s, i)
        experts(m, s, i, 4, s.ff)
    head(m, s)
    return m


def qwen3moe(name):
    s = Shape(ff=64, head=24)
    m = start(name, "qwen3moe", s)
    m.u32("expert_count", 5)
    m.u32("expert_used_count", 3)
    m.u32("expert_feed_forward_length", 40)
    vocab_spm(m)
    embed(m, s)
    for i in range(s.layers):
        up_to_ffn(m, s, i, qk=True)
        experts(m, s, i, 5, 40)
    head(m, s)
    return m


def gemma(name, version):
    """Tied embeddings, small because their rows are scaled by sqrt(n_embd). A window needs layers to alternate on."""
    s = Shape(head=24) if version == 1 else Shape(**DEEP)
    m = start(name, "gemma" if version == 1 else "gemma%d" % version, s)
    if version > 1:
        m.u32("attention.sliding_window", 8)
    if version == 2:
        m.f32("attn_logit_softcapping", 3.0)
        m.f32("final_logit_softcapping", 4.0)
    if version == 3:
        m.u32("attention.sliding_window_pattern", 2)
        m.f32("rope.freq_base_swa", 300.0)
    vocab_spm(m)
    embed(m, s, sigma=TIED)
    for i in range(s.layers):
        norm(m, s, i, "attn_norm")
        attention(m, s, i)
        if version == 3:
            qk_norm(m, s, i)
        if version > 1:
            norm(m, s, i, "post_attention_norm")
        norm(m, s, i, "ffn_norm")
        ffn(m, s, i)
        if version > 1:
            norm(m, s, i, "post_ffw_norm")
    head(m, s, tied=True)
    return m


def gpt2(name):
    s = Shape(kv=4, ff=128)
    m = start(name, "gpt2", s, layer_norm=True, rope=False)
    vocab_spm(m)
    embed(m, s)
    m.vec("position_embd.weight", s.embd, s.ctx, sigma=1.0)
    for i in range(s.layers):
        biased_block(m, s, i, bias=True, out_bias=True, fused=True)
    head(m, s, norm_bias=True)
    return m


def mamba(name):
    s = Shape(embd=48, heads=1, kv=1)
    inner, rank, states, width = 2 * s.embd, 3, 12, 4
    m = start(name, "mamba", s, rope=False)
    m.u32("ssm.conv_kernel", width)
    m.u32("ssm.inner_size", inner)
    m.u32("ssm.state_size", states)
    m.u32("ssm.time_step_rank", rank)
    vocab_spm(m)
    embed(m, s)
    for i in range(s.layers):
        b = "blk.%d." % i
        norm(m, s, i, "attn_norm")
        m.mat(b + "ssm_in.weight", s.embd, 2 * inner, 1.5)
        m.vec(b + "ssm_conv1d.weight", width, inner, sigma=0.7)
        m.vec(b + "ssm_conv1d.bias", inner)
        m.mat(b + "ssm_x.weight", inner, rank + 2 * states, 1.5)
        m.mat(b + "ssm_dt.weight", rank, inner, 1.0)
        m.vec(b + "ssm_dt.bias", inner)
        m.vec(b + "ssm_a", states, inner, low=-2.0, high=-0.05)
        m.vec(b + "ssm_d", inner, sigma=1.0)
        m.mat(b + "ssm_out.weight", inner, s.embd, 1.0)
    head(m, s)
    return m


def lora(name):
    """An adapter for the model llama-base: every matrix of the layers, rank 4, alpha 6; no tokens of its own."""
    s = Shape()
    rank = 4
    m = Model(name, "llama", kind="adapter")
    m.key("general.type", STRING, "adapter")
    m.key("general.name", STRING, "random")
    m.key("adapter.type", STRING, "lora")
    m.key("adapter.lora.alpha", F32, 6.0)
    n_q, n_kv = s.head * s.heads, s.head * s.kv
    parts = (("attn_q", s.embd, n_q), ("attn_k", s.embd, n_kv), ("attn_v", s.embd, n_kv), ("attn_output", n_q, s.embd),
             ("ffn_gate", s.embd, s.ff), ("ffn_up", s.embd, s.ff), ("ffn_down", s.ff, s.embd))
    for i in range(s.layers):
        for part, n_in, n_out in parts:
            m.mat("blk.%d.%s.weight.lora_a" % (i, part), n_in, rank, 0.4)
            m.mat("blk.%d.%s.weight.lora_b" % (i, part), rank, n_out, 0.5)
    return m


# Architectures of older or rarer models


def falcon(name, two_norms=False):
    """The larger ones have a norm of their own for attention."""
    s = Shape(kv=2 if two_norms else 1, ff=128)
    m = start(name, "falcon", s, family="falcon", layer_norm=True)
    vocab_spm(m)
    embed(m, s)
    for i in range(s.layers):
        norm(m, s, i, "attn_norm", bias=True)
        if two_norms:
            norm(m, s, i, "attn_norm_2", bias=True)
        attention(m, s, i, fused=True)
        ffn(m, s, i, gate=False)
    head(m, s, norm_bias=True)
    return m


def gptneox(name, parallel):
    s = Shape(kv=4, ff=96, rot=4)
    m = start(name, "gptneox", s, family="gptneox", layer_norm=True)
    m.flag("use_parallel_residual", parallel)
    vocab_spm(m)
    embed(m, s)
    for i in range(s.layers):
        biased_block(m, s, i, bias=True, out_bias=True, fused=True)
    head(m, s, norm_bias=True)
    return m


def bloom(name):
    s = Shape(embd=48, heads=6, kv=6, ff=128)
    m = start(name, "bloom", s, layer_norm=True, rope=False)
    vocab_spm(m)
    embed(m, s, sigma=TIED)
    m.norm("token_embd_norm.weight", s.embd)
    m.vec("token_embd_norm.bias", s.embd)
    for i in range(s.layers):
        biased_block(m, s, i, bias=True, out_bias=True, fused=True)
    head(m, s, norm_bias=True, tied=True)
    return m


def mpt(name):
    s = Shape(kv=4, ff=128)
    m = start(name, "mpt", s, layer_norm=True, rope=False)
    m.f32("attention.max_alibi_bias", 6.0)
    m.f32("attention.clamp_kqv", 1.5)
    vocab_spm(m)
    embed(m, s, sigma=TIED)
    for i in range(s.layers):
        up_to_ffn(m, s, i, fused=True)
        ffn(m, s, i, gate=False)
    head(m, s, tied=True)
    return m


def minicpm_keys(m):
    m.f32("embedding_scale", 3.0)
    m.f32("residual_scale", 0.7)
    m.f32("logit_scale", 1.6)


def starcoder(name):
    s = Shape(kv=1, ff=128, ctx=64)
    m = start(name, "starcoder", s, layer_norm=True, rope=False)
    vocab_spm(m)
    embed(m, s)
    m.vec("position_embd.weight", s.embd, s.ctx, sigma=0.7)
    for i in range(s.layers):
        biased_block(m, s, i, bias=True, out_bias=True, fused=True)
    head(m, s, norm_bias=True)
    return m


def olmoe(name):
    s = Shape(kv=4, ff=24)
    m = start(name, "olmoe", s)
    m.u32("expert_count", 6)
    m.u32("expert_used_count", 2)
    vocab_spm(m)
    embed(m, s)
    for i in range(s.layers):
        norm(m, s, i, "attn_norm")
        attention(m, s, i)
        m.norm("blk.%d.attn_q_norm.weight" % i, s.embd)
        m.norm("blk.%d.attn_k_norm.weight" % i, s.embd)
        norm(m, s, i, "ffn_norm")
        experts(m, s, i, 6, s.ff)
    head(m, s)
    return m


def phimoe(name):
    s = Shape(ff=24)
    m = start(name, "phimoe", s)
    m.u32("expert_count", 4)
    m.u32("expert_used_count", 2)
    m.u32("rope.scaling.original_context_length", 64)
    m.f32("rope.scaling.attn_factor", 1.24)
    vocab_spm(m)
    embed(m, s)
    m.vec("rope_factors_long.weight", s.head // 2, low=1.5, high=8.0)
    m.vec("rope_factors_short.weight", s.head // 2, low=1.0, high=1.5)
    for i in range(s.layers):
        norm(m, s, i, "attn_norm", bias=True)
        attention(m, s, i, bias=True, out_bias=True)
        norm(m, s, i, "ffn_norm", bias=True)
        experts(m, s, i, 4, s.ff)
    head(m, s, norm_bias=True, bias=True)
    return m


def deepseek2(name, sigmoid):
    """Queries and keys through low ranks, a rotated part that all heads share, a dense layer first, experts then. With
    sigmoid: the routing of the third generation (expert groups, a bias for the choice only, weights normalised and
    scaled)."""
    rank_q, rank_kv, rot, nope, head_v = 24, 32, 8, 12, 16
    n_expert, n_ff = 8, 16
    s = Shape(embd=64, layers=3, heads=4, kv=1, ff=96, head=rank_kv + rot, rot=rot)
    m = Model(name, "deepseek2", "deepseek2")
    m.u32("context_length", s.ctx)
    m.u32("embedding_length", s.embd)
    m.u32("block_count", s.layers)
    m.u32("feed_forward_length", s.ff)
    m.u32("leading_dense_block_count", 1)
    m.u32("attention.head_count", s.heads)
    m.u32("attention.head_count_kv", 1)
    m.f32("attention.layer_norm_rms_epsilon", EPS)
    m.u32("attention.q_lora_rank", rank_q)
    m.u32("attention.kv_lora_rank", rank_kv)
    m.u32("attention.key_length", rank_kv + rot)
    m.u32("attention.value_length", rank_kv)
    m.u32("attention.key_length_mla", nope + rot)
    m.u32("attention.value_length_mla", head_v)
    m.u32("rope.dimension_count", rot)
    m.f32("rope.freq_base", ROPE_BASE)
    yarn(m, 4.0, 24)
    m.f32("rope.scaling.yarn_log_multiplier", 0.0707)
    m.u32("expert_count", n_expert)
    m.u32("expert_used_count", 2)
    m.u32("expert_shared_count", 2)
    m.u32("expert_feed_forward_length", n_ff)
    m.f32("expert_weights_scale", 2.5 if sigmoid else 1.0)
    m.flag("expert_weights_norm", sigmoid)
    m.u32("expert_gating_func", 2 if sigmoid else 1)
    if sigmoid:
        m.u32("expert_group_count", 4)
        m.u32("expert_group_used_count", 2)
    vocab_spm(m)
    embed(m, s)
    for i in range(s.layers):
        b = "blk.%d." % i
        norm(m, s, i, "attn_norm")
        m.mat(b + "attn_q_a.weight", s.embd, rank_q)
        m.norm(b + "attn_q_a_norm.weight", rank_q)
        m.mat(b + "attn_q_b.weight", rank_q, s.heads * (nope + rot), 1.4)
        m.mat(b + "attn_kv_a_mqa.weight", s.embd, rank_kv + rot, 1.2)
        m.norm(b + "attn_kv_a_norm.weight", rank_kv)
        m.mat(b + "attn_k_b.weight", nope, rank_kv, 0.9, s.heads)
        m.mat(b + "attn_v_b.weight", rank_kv, head_v, 1.2, s.heads)
        m.mat(b + "attn_output.weight", s.heads * head_v, s.embd)
        norm(m, s, i, "ffn_norm")
        if i == 0:
            ffn(m, s, i)
            continue
        experts(m, s, i, n_expert, n_ff)
        if sigmoid:
            m.vec(b + "exp_probs_b.bias", n_expert, sigma=0.3)
        shared_expert(m, s, i, 2 * n_ff)
    head(m, s)
    return m


def glm4(name):
    s = Shape(rot=8, ff=64)
    m = start(name, "glm4", s)
    vocab_spm(m)
    embed(m, s)
    for i in range(s.layers):
        norm(m, s, i, "attn_norm")
        attention(m, s, i, bias=True)
        norm(m, s, i, "post_attention_norm")
        norm(m, s, i, "ffn_norm")
        fused_ffn(m, s, i)
        norm(m, s, i, "post_ffw_norm")
    head(m, s)
    return m


# Baichuan tells its two kinds apart by depth alone: 32 layers rotate, 40 have position slopes instead.
BAICHUAN = dict(embd=16, heads=2, kv=2, ff=24)


def models():
    """Name -> function that makes it."""
    return {
        "phi2": lambda n: phi2(n, fused=True),
        "phi2-separate": lambda n: phi2(n, fused=False),
        "stablelm": lambda n: stablelm(n),
        "stablelm-bias": lambda n: stablelm(n, bias=True),
        "stablelm-parallel": lambda n: stablelm(n, parallel=True),
        "stablelm-qknorm": lambda n: stablelm(n, parallel=True, qk_norm=True),
        "olmo2": lambda n: olmo2(n),
        "olmo2-window": lambda n: olmo2(n, window=8),
        "olmo": olmo,
        "granite": lambda n: granite(n),
        "granitemoe": lambda n: granite(n, n_expert=4),
        "granitemoe-shared": lambda n: granite(n, n_expert=4, shared=True),
        "command-r": lambda n: command_r(n),
        "command-r-qknorm": lambda n: command_r(n, qk_norm=True),
        "cohere2": lambda n: cohere2(n),
        "cohere2-period2": lambda n: cohere2(n, period=2),
        "starcoder2": lambda n: starcoder2(n, tied=False),
        "starcoder2-tied": lambda n: starcoder2(n, tied=True),
        "smollm3": smollm3,
        "gpt-oss": gpt_oss,
        "gpt-oss-f32": lambda n: dequantised(gpt_oss("gpt-oss"), n),
        "bert": lambda n: bert(n),
        "bert-rank": lambda n: bert(n, classifier=True),
        "nomic-bert": nomic_bert,
        "jina-bert-v2": lambda n: jina_bert_v2(n),
        "jina-bert-v2-code": lambda n: jina_bert_v2(n, code=True),
        "nomic-bert-moe": nomic_bert_moe,
        "jina-bert-v3": jina_bert_v3,
        "modern-bert": modern_bert,
        "mistral3": lambda n: llama(n, keys=mistral3_keys, arch="mistral3"),
        "qwen2moe": qwen2moe,
        "qwen3-yarn": qwen3_yarn,
        "llama-yarn": lambda n: llama(n, keys=lambda m: yarn(m, 4.0, 64, 1.1)),
        "llama-linear": lambda n: llama(n, keys=rope_linear),
        "phi3-long": lambda n: phi3_longrope(n, 64),
        "phi3-short": lambda n: phi3_longrope(n, 256),
        "phi3-window": lambda n: phi3_longrope(n, 256, window=8),
        "llama-bias": lambda n: llama(n, bias=True, ffn_bias=True),
        "llama-tied": lambda n: llama(n, tied=True),
        "llama-base": lambda n: llama(n),
        "llama-lora": lora,
        "mixtral": mixtral,
        "qwen2": lambda n: llama(n, bias=True, arch="qwen2"),
        "qwen3moe": qwen3moe,
        "gemma": lambda n: gemma(n, 1),
        "gemma2": lambda n: gemma(n, 2),
        "gemma3": lambda n: gemma(n, 3),
        "gpt2": gpt2,
        "mamba": mamba,
        "falcon": lambda n: falcon(n),
        "falcon-norms": lambda n: falcon(n, two_norms=True),
        "gptneox": lambda n: gptneox(n, parallel=True),
        "gptneox-serial": lambda n: gptneox(n, parallel=False),
        "bloom": bloom,
        "mpt": mpt,
        "minicpm": lambda n: llama(n, keys=minicpm_keys, tied=True, arch="minicpm"),
        "starcoder": starcoder,
        "baichuan-7b": lambda n: llama(n, arch="baichuan", s=Shape(layers=32, **BAICHUAN)),
        "baichuan-13b": lambda n: llama(n, arch="baichuan", s=Shape(layers=40, **BAICHUAN)),
        "internlm2": lambda n: llama(n, arch="internlm2"),
        "exaone": lambda n: llama(n, arch="exaone"),
        "olmoe": olmoe,
        "phimoe": phimoe,
        "deepseek2": lambda n: deepseek2(n, sigmoid=False),
        "deepseek2-sigmoid": lambda n: deepseek2(n, sigmoid=True),
        "glm4": glm4,
    }


def main(argv):
    known = models()
    if argv[1:2] == ["--list"]:
        print("\n".join(known))
        return 0
    if len(argv) < 2 or argv[1].startswith("-"):
        sys.stderr.write(__doc__)
        return 2
    names = argv[2:] or list(known)
    for name in names:
        if name not in known:
            sys.stderr.write("make_models.py: no model '%s'; --list names them\n" % name)
            return 2
    os.makedirs(argv[1], exist_ok=True)
    for name in names:
        known[name](name).write(argv[1])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
