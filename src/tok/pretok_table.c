/* Pre-tokenisers by name: what GGUF files call them, the patterns behind the names, and what else goes with a name.
 *
 * Invariants
 *  1. Patterns are those of the models' own tokenizer.json where that is known, written for PCRE2; each does a few
 *     steps per byte of any text. A group that repeats is possessive, as each round of another kind costs stack.
 *  2. An alias has the patterns and all flags of the rule it names; a name that differs in a flag is a rule.
 *
 * Refuses to know how a pattern is run (pretok.c). docs/tokenizers.md has the table with what was checked. */
#include "tok/tok_impl.h"

#include <string.h>

/* The characters of Unicode's White_Space, written out: PCRE2's \s also has U+180E, which was a space before
 * Unicode 6.3 and which the tokenisers, made later, take for a format character. */
#define SP "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define S "[" SP "]"
#define SPACES_TAIL S "+(?![^" SP "])|" S "+"
#define LINES_TAIL "|" S "*[\\r\\n]+|" SPACES_TAIL

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" SP "\\p{L}\\p{N}]+|" SPACES_TAIL
#define SHORT "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define WORDS SHORT "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define SIGNS "| ?[^" SP "\\p{L}\\p{N}]+"
#define LLAMA3(digits) WORDS digits SIGNS "[\\r\\n]*" LINES_TAIL

/* Words that are split where a capital begins: capitals (and what has no case) before, small letters behind. */
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASES(upper, lower, end) \
	"[^\\r\\n\\p{L}\\p{N}]?" upper "*" lower "+" end "|[^\\r\\n\\p{L}\\p{N}]?" upper "+" lower "*" end
#define GPT4O(digits) CASES(UPPER, LOWER, SHORT "?") "|" digits SIGNS "[\\r\\n/]*" LINES_TAIL
/* The same two without ideographs. PCRE2 knows no intersection of classes, so they are what is in no other category;
 * and its plain \p{Han} has the punctuation that Chinese shares with others, too. */
#define KIMI_UPPER "[^\\p{Ll}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}\\p{sc:Han}]"
#define KIMI_LOWER "[^\\p{Lu}\\p{Lt}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}\\p{sc:Han}]"

#define HAN_KANA "\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}"
#define ASCII_SIGN "[!-/:-@\\[-`{-~]"
#define MARKED "|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*"
#define DEEPSEEK3 ASCII_SIGN "[A-Za-z]+" MARKED LINES_TAIL
#define DEEPSEEK_CJK "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+"
#define BLOOM " ?[^(" SP "|.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}\\x{6d4}\\x{60c})]+"
#define NEWLINES "[^\\n]+|[\\n]+"
/* So many white-space characters, not followed by another character that is none. */
#define SPACES(n) S "{" #n "}(?![^" SP "])|"

/* The letters deepseek-llm takes for letters: those that have a case, as of the Unicode version it was made with. */
#define CASED \
	"\\x{41}-\\x{5a}\\x{61}-\\x{7a}\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}" \
	"\\x{1c4}-\\x{293}\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}\\x{37f}\\x{386}" \
	"\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}" \
	"\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}" \
	"\\x{1cbd}-\\x{1cbf}\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}" \
	"\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}\\x{1f5b}\\x{1f5d}" \
	"\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}" \
	"\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}" \
	"\\x{2107}\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-\\x{211d}\\x{2124}\\x{2126}\\x{2128}\\x{212a}-\\x{212d}" \
	"\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}\\x{214e}\\x{2183}\\x{2184}" \
	"\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}" \
	"\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}" \
	"\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}" \
	"\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}" \
	"\\x{118a0}-\\x{118df}\\x{1e900}-\\x{1e943}"

#define QWEN35_WORDS SHORT "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"
#define QWEN35 QWEN35_WORDS "| ?[^" SP "\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" LINES_TAIL
#define JAIS2_RUNS SPACES(512) SPACES(256) SPACES(128) SPACES(64) SPACES(32) SPACES(16) SPACES(8) SPACES(4)
#define JAIS2_TAIL JAIS2_RUNS S "{1,2}(?![^" SP "])|" S
/* Its runs of spaces end where no line end follows, and so no piece of one needs to look for it again: without the
 * look-behind each would go to the end of the run, which takes minutes for a few megabytes. */
#define JAIS2_LINES "(?<!(?![\\r\\n])" S ")" S "*[\\r\\n]+|"
#define JAIS2 WORDS "\\p{N}{1,3}" SIGNS "[\\r\\n]*|" JAIS2_LINES JAIS2_TAIL
#define BAILING_WORDS "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}"
#define BAILING BAILING_WORDS "| ?[^" SP "\\p{L}\\p{N}]++[\\r\\n]*|" S "*[\\r\\n]|" SPACES_TAIL
/* Letters with their marks, and further ones behind single spaces. */
#define EXAONE_WORDS SHORT "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}(?:[\\p{L}\\p{M}]++| \\p{L})*+|\\p{N}"
#define EXAONE_MOE EXAONE_WORDS SIGNS "[\\r\\n/]?|" S "*[\\r\\n]|" SPACES_TAIL
#define TEKKEN CASES(UPPER, LOWER, "") "|\\p{N}" SIGNS "[\\r\\n/]*" LINES_TAIL
#define KIMI_WORDS "\\p{sc:Han}+|" CASES(KIMI_UPPER, KIMI_LOWER, SHORT "?")
#define KIMI KIMI_WORDS "|\\p{N}{1,3}" SIGNS "[\\r\\n]*" LINES_TAIL
/* Digits behind which a word ends (PCRE2's own idea of a word has no marks). The look-behind keeps a long run that does
 * not end so from being tried again and again, which PCRE2 sees for itself only with its JIT. */
#define AYA_DIGITS "(?<!\\d)\\d++(?![\\p{L}\\p{M}\\p{N}\\p{Pc}])"
#define DEEPSEEK_SIGN "[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}]"
#define S_END "(?<!" S ")" S "++\\z"
#define AFMOE_CJK \
	"[\\x{4e00}-\\x{9fff}\\x{3400}-\\x{4dbf}\\x{f900}-\\x{faff}\\x{3040}-\\x{30ff}\\x{ff65}-\\x{ff9f}" \
	"\\x{2f00}-\\x{2fdf}\\x{e40}-\\x{eff}\\x{1780}-\\x{17ff}\\x{1000}-\\x{109f}\\x{aa60}-\\x{aa7f}" \
	"\\x{a9e0}-\\x{a9ff}\\x{ac00}-\\x{d7af}\\x{1100}-\\x{11ff}]+"
#define YOUTU_CJK \
	"[\\x{ac00}-\\x{d7a3}\\x{3131}-\\x{318e}]+|[\\x{ff01}\\x{2026}\\x{201c}\\x{201d}\\x{2018}\\x{2019}" \
	"\\x{2014}\\x{ff1a}\\x{ff1b}\\x{ff0c}\\x{3001}-\\x{303f}\\x{fe30}-\\x{fe4f}]+|" \
	"[\\x{3105}-\\x{312f}]+|[" HAN_KANA "]+"
#define CHAMELEON_MARKS "<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", "[\\t\\n]|    |  "

static const struct pretok_rule rules[] = {
	{.name = "default", .pattern = {"[\\p{P}$+<=>^~|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}},
	{.name = "gpt-2", .pattern = {GPT2}},
	{.name = "olmo", .pattern = {GPT2}, .nfc = true},
	{.name = "llama-bpe", .pattern = {LLAMA3("\\p{N}{1,3}")}, .ignore_merges = true, .add_bos = true},
	{.name = "dbrx", .pattern = {LLAMA3("\\p{N}{1,3}")}},
	{.name = "qwen2", .pattern = {LLAMA3("\\p{N}")}, .nfc = true},
	{.name = "stablelm2", .pattern = {LLAMA3("\\p{N}")}},
	{.name = "qwen35", .pattern = {QWEN35}, .nfc = true},
	{.name = "laguna", .pattern = {NEWLINES, LLAMA3("\\p{N}")}},
	{.name = "minicpm5", .pattern = {"\\p{N}{1,3}", LLAMA3("\\p{N}+")}, .ignore_merges = true},
	{.name = "jais-2", .pattern = {JAIS2}},
	{.name = "seed-coder", .pattern = {WORDS "\\p{N}" SIGNS LINES_TAIL}},
	{.name = "bailingmoe", .pattern = {BAILING}},
	{.name = "exaone-moe", .pattern = {EXAONE_MOE}},
	{.name = "starcoder", .pattern = {"\\p{N}", GPT2}},
	{.name = "command-r", .pattern = {"\\p{N}", GPT2}, .nfc = true},
	{.name = "falcon", .pattern = {"[\\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]"}},
	{.name = "deepseek-coder", .pattern = {"[\\r\\n]", S "?\\p{L}+", S "?\\p{P}+", DEEPSEEK_CJK, "\\p{N}"}},
	{.name = "deepseek-llm",
		.pattern = {"[\\r\\n]", S "?[" CASED "]+", S "?" DEEPSEEK_SIGN "+", S_END, DEEPSEEK_CJK, "\\p{N}+"}},
	{.name = "deepseek-v3", .pattern = {"\\p{N}{1,3}", "[" HAN_KANA "]+", DEEPSEEK3}},
	{.name = "afmoe", .pattern = {"\\p{N}+", AFMOE_CJK, DEEPSEEK3}, .threes = true},
	{.name = "youtu", .pattern = {YOUTU_CJK, GPT4O("\\p{N}")}, .ignore_merges = true},
	{.name = "tekken", .pattern = {TEKKEN}, .ignore_merges = true, .add_bos = true},
	{.name = "gpt-4o", .pattern = {GPT4O("\\p{N}{1,3}")}},
	{.name = "granite-embed-multi-97m", .pattern = {GPT4O("\\p{N}{1,3}")}, .ignore_merges = true},
	{.name = "tiny_aya", .pattern = {AYA_DIGITS, GPT4O("\\p{N}{1,3}")}, .threes = true},
	{.name = "kimi-k2", .pattern = {KIMI}},
	{.name = "superbpe", .pattern = {"\\p{N}+"}, .threes = true},
	{.name = "bloom", .pattern = {BLOOM}},
	{.name = "viking", .pattern = {BLOOM, "\\p{N}"}},
	{.name = "chameleon", .pattern = {CHAMELEON_MARKS, "\\p{N}", "[\\p{P}!-/:-@\\[-`{-~]", GPT2}, .add_bos = true},
	{.name = "gemma4", .pattern = {NEWLINES}, .chars = true, .add_bos = true},
	{.name = "sarvam-moe", .pattern = {NEWLINES}, .chars = true},
};

static const struct {
	const char *name, *is;
} aliases[] = {
	{"phi-2", "gpt-2"}, {"jina-es", "gpt-2"}, {"jina-de", "gpt-2"}, {"jina-v1-en", "gpt-2"},
	{"jina-v2-es", "gpt-2"}, {"jina-v2-de", "gpt-2"}, {"jina-v2-code", "gpt-2"},
	{"roberta-bpe", "gpt-2"}, {"gigachat", "gpt-2"}, {"a.x-4.0", "gpt-2"}, {"mellum", "gpt-2"},
	{"jais", "gpt-2"}, {"trillion", "gpt-2"}, {"granite-docling", "gpt-2"}, {"exaone4", "gpt-2"},
	{"mpt", "olmo"}, {"modern-bert", "olmo"},
	{"llama3", "llama-bpe"}, {"llama-v3", "llama-bpe"}, {"falcon3", "llama-bpe"},
	{"falcon-h1", "llama-bpe"}, {"pixtral", "llama-bpe"}, {"midm-2.0", "llama-bpe"},
	{"lfm2", "llama-bpe"}, {"jina-v5-nano", "llama-bpe"},
	{"smaug-bpe", "dbrx"}, {"glm4", "dbrx"}, {"chatglm-bpe", "dbrx"},
	{"deepseek-r1-qwen", "qwen2"}, {"f2llmv2", "qwen2"},
	{"hunyuan", "stablelm2"}, {"solar-open", "stablelm2"}, {"grok-2", "stablelm2"},
	{"megrez", "stablelm2"}, {"kormo", "stablelm2"},
	{"bailingmoe2", "bailingmoe"}, {"llada-moe", "bailingmoe"},
	{"refact", "starcoder"}, {"smollm", "starcoder"}, {"codeshell", "starcoder"},
	{"exaone", "starcoder"}, {"minerva-7b", "starcoder"}, {"mellum2", "starcoder"},
	{"hunyuan-dense", "deepseek-v3"}, {"joyai-llm", "deepseek-v3"},
	{"llama4", "gpt-4o"}, {"kanana2", "gpt-4o"}, {"talkie", "gpt-4o"}, {"minimax-m2", "gpt-4o"},
	{"cohere2moe", "tiny_aya"},
	{"poro-chat", "bloom"}, {"gpt3-finnish", "bloom"},
	{"granite-embed-multi-311m", "gemma4"},
};

#define N_OF(a) (sizeof(a) / sizeof *(a))

static bool same(const char *name, const char *s, size_t n)
{
	return strlen(name) == n && memcmp(name, s, n) == 0;
}

const struct pretok_rule *pretok_find(const char *name, size_t n)
{
	for (size_t i = 0; i < N_OF(aliases); i++) {
		if (same(aliases[i].name, name, n)) {
			name = aliases[i].is;
			n = strlen(name);
			break;
		}
	}
	for (size_t i = 0; i < N_OF(rules); i++)
		if (same(rules[i].name, name, n))
			return &rules[i];
	return NULL;
}

const struct pretok_rule *pretok_rule_at(size_t i)
{
	return i < N_OF(rules) ? &rules[i] : NULL;
}

const char *pretok_alias_at(size_t i)
{
	return i < N_OF(aliases) ? aliases[i].name : NULL;
}
