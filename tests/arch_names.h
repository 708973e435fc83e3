/* The random models of ../shared/golden, by the kind of model. */
#ifndef TESTS_ARCH_NAMES_H
#define TESTS_ARCH_NAMES_H

/* clang-format off */
#define ARCH_DECODERS \
	"mixtral", "qwen2", "qwen3moe", "gemma", "gemma2", "gemma3", "gpt2", "mamba", "phi2", \
	"phi2-separate", "stablelm", "stablelm-bias", "stablelm-parallel", "stablelm-qknorm", "olmo2", \
	"olmo2-window", "granite", "granitemoe", "granitemoe-shared", "command-r", "command-r-qknorm", \
	"starcoder2", "starcoder2-tied", "smollm3", "gpt-oss-f32", "qwen2moe", "qwen3-yarn", "llama-yarn", \
	"llama-linear", "phi3-long", "phi3-short", "llama-bias", "llama-tied", "llama-base", "cohere2", \
	"cohere2-period2", "olmoe", "glm4", "exaone", "starcoder", "bloom", "gptneox", "gptneox-serial", \
	"falcon", "falcon-norms", "baichuan-7b", "baichuan-13b", "internlm2", "minicpm", "mistral3", \
	"mpt", "gpt-oss"
#define ARCH_ENCODERS \
	"bert", "nomic-bert", "jina-bert-v2", "jina-bert-v2-code", "jina-bert-v3"
/* clang-format on */

#endif
