/* Templates through their interface: what a template sees, what it says when it cannot go on, and where.
 *
 * Shown red by planted faults: `extra` that is not looked at; keys in the order of a hash; lines counted from 0; sums
 * and products that wrap around (integers_at_the_edge_of_64_bits); times read by sscanf, which takes blanks and signs
 * (template_calls_refuse_bad_arguments); texts compared up to the length of the longer one
 * (texts_that_begin_each_other); None that starts at the second character, or ends at the first (from_none). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>

#include "template_case.h"

static void gives(const char *source, const char *vars, const char *want)
{
	struct cohort_err err = {0};
	char *got = render(source, vars, &err);
	if (!got)
		fail_msg("%s: %s", source, err.text);
	assert_string_equal(got, want);
	cohort_template_text_free(got);
}

static void fails(const char *source, const char *vars, enum cohort_status status, int64_t line, const char *text)
{
	struct cohort_err err = {0};
	char *got = render(source, vars, &err);
	if (got)
		fail_msg("%s gives %s", source, got);
	if (err.status != status || err.row != line || !strstr(err.text, text))
		fail_msg("%s: status %d, line %d: %s", source, (int)err.status, (int)err.row, err.text);
}

static void variables_of_templates(void **state)
{
	static const char source[] =
			"{{ messages|length }}{{ tools|length }}{{ documents[0] }}{{ bos_token }}{{ eos_token }}"
			"{{ add_generation_prompt }}{{ a }}";
	struct cohort_template_params p;
	struct cohort_err err = {0};
	size_t n;
	(void)state;

	cohort_template_params_init(&p);
	p.messages = "[{\"role\":\"user\"}]";
	p.tools = "[1, 2]";
	p.documents = "[\"D\"]";
	p.bos_token = "<s>";
	p.eos_token = "</s>";
	p.extra = "{\"a\": 5}";
	char *got = render_n(source, strlen(source), &p, &n, &err);
	assert_string_equal(got, "12D<s></s>True5");
	assert_int_equal(n, 15);
	cohort_template_text_free(got);

	p.extra = "{\"eos_token\": \"other\", \"add_generation_prompt\": 0}";
	got = render_n(source, strlen(source), &p, &n, &err);
	assert_string_equal(got, "12D<s>other0");
	cohort_template_text_free(got);

	/* What is not given is undefined; null is None. */
	gives("{{ tools is defined }}{{ messages is defined }}{{ bos_token is defined }}{{ add_generation_prompt }}",
			NULL, "FalseFalseFalseTrue");
	cohort_template_params_init(&p);
	p.tools = "null";
	got = render_n("{{ tools is none }}", 19, &p, &n, &err);
	assert_string_equal(got, "True");
	cohort_template_text_free(got);
}

static void json_values(void **state)
{
	(void)state;
	gives("{{ d }}",
			"{\"d\": "
			"{\"z\":1,\"b\":[true,null,1.0,1e2,-0],\"a\":{\"y\":\"\\u00e9\\ud83d\\ude00\",\"x\":{}}}}",
			"{'z': 1, 'b': [True, None, 1.0, 100.0, 0], 'a': {'y': 'é😀', 'x': {}}}");
	gives("{{ d|tojson }}", "{\"d\": {\"z\":1,\"b\":[true,null,1.0],\"a\":\"é\\n\"}}",
			"{\"z\": 1, \"b\": [true, null, 1.0], \"a\": \"é\\n\"}");
	gives("{{ d }}", "{\"d\": {\"a\":1,\"b\":2,\"a\":3}}", "{'a': 3, 'b': 2}");
	/* More keys than are looked for one by one. */
	gives("{{ d.k11 }}{{ d.k0 }}{{ d|length }}{{ d.keys()|join }}",
			"{\"d\": "
			"{\"k9\":9,\"k8\":8,\"k7\":7,\"k6\":6,\"k5\":5,\"k4\":4,\"k3\":3,\"k2\":2,\"k1\":1,\"k0\":0,"
			"\"k11\":11,"
			"\"k12\":12}}",
			"11012k9k8k7k6k5k4k3k2k1k0k11k12");
	gives("{{ i }}", "{\"i\": 9223372036854775807}", "9223372036854775807");
	gives("{{ i }}", "{\"i\": -9223372036854775808}", "-9223372036854775808");
	fails("{{ i }}", "{\"i\": 9223372036854775808}", COHORT_E_LIMIT, -1, "64 bits");
	fails("x", "{\"i\": }", COHORT_E_FORMAT, -1, "extra is not JSON");
	fails("x", "{\"i\": \"\\ud800\"}", COHORT_E_FORMAT, -1, "surrogate");
	fails("x", "{\"i\": 1} x", COHORT_E_FORMAT, -1, "follows at byte 9");
	fails("x", "{\"i\": \"\xff\"}", COHORT_E_FORMAT, -1, "UTF-8");
	fails("x", "{\"i\": \"\\ud800\\u0041\"}", COHORT_E_FORMAT, -1, "surrogate");
	gives("{{ d }}", "{\"d\": [NaN, Infinity, -Infinity]}", "[nan, inf, -inf]");
	fails("x", "[1]", COHORT_E_ARG, -1, "extra must be a JSON object");
	static const char *const bad[] = {"", "{", "{\"a\"", "{\"a\":1", "{\"a\":1,}", "{\"a\":[1,]}", "{\"a\":01}",
			"{\"a\":1.}", "{\"a\":\"\n\"}", "{\"a\":\"\\x\"}", "{\"a\":\"", "{\"a\":tru}", "{'a':1}",
			"{\"a\":-}", "{\"a\":1e}"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		fails("x", bad[i], COHORT_E_FORMAT, -1, "not JSON");
}

static void template_errors_have_their_line(void **state)
{
	(void)state;
	fails("a\n{{ x", NULL, COHORT_E_FORMAT, 2, "}} is missing");
	fails("a\n\n{% if %}", NULL, COHORT_E_FORMAT, 3, "where a value is missing");
	fails("{% if x %}\na", NULL, COHORT_E_FORMAT, 2, "endif");
	fails("\n{# a\n", NULL, COHORT_E_FORMAT, 2, "comment");
	fails("\n{{ 'a }}", NULL, COHORT_E_FORMAT, 2, "does not end");
	fails("\r\n\r{{ (1] }}", NULL, COHORT_E_FORMAT, 3, "where ')' is missing");
	fails("{{ 1|nosuch }}", NULL, COHORT_E_FORMAT, 1, "no filter 'nosuch'");
	fails("{% include 'x' %}", NULL, COHORT_E_UNSUPPORTED, 1, "include");
	fails("{% extends 'x' %}", NULL, COHORT_E_UNSUPPORTED, 1, "extends");
	fails("{% import 'x' as y %}", NULL, COHORT_E_UNSUPPORTED, 1, "import");
	fails("{{ [1]|random }}", NULL, COHORT_E_UNSUPPORTED, 1, "random");
	fails("{{ lipsum() }}", NULL, COHORT_E_UNSUPPORTED, 1, "lipsum");
	fails("{{ 'a'.encode() }}", NULL, COHORT_E_UNSUPPORTED, 1, "bytes");
	fails("{% autoescape true %}{% endautoescape %}", NULL, COHORT_E_UNSUPPORTED, 1, "escaping");
	fails("{{ '\\N{BULLET}' }}", NULL, COHORT_E_FORMAT, 1, "not supported");
	fails("{{ '\\ud800' }}", NULL, COHORT_E_FORMAT, 1, "no character");
	fails("a\n{{ raise_exception('no\nway') }}", NULL, COHORT_E_ARG, 2, "no way");
	fails("a\n{% for x in [1] %}\n{{ x.y.z }}{% endfor %}", NULL, COHORT_E_ARG, 3, "of type 'int' has no 'y'");
	fails("\n{{ 9223372036854775807 + 1 }}", NULL, COHORT_E_ARG, 2, "64 bits");
	fails("{{ -(-9223372036854775807 - 1) }}", NULL, COHORT_E_ARG, 1, "64 bits");
	fails("{{ (-9223372036854775807 - 1) // -1 }}", NULL, COHORT_E_ARG, 1, "64 bits");
	fails("{{ 10 ** 19 }}", NULL, COHORT_E_ARG, 1, "64 bits");
	fails("{{ 9223372036854775808 }}", NULL, COHORT_E_FORMAT, 1, "64 bits");
	/* There is room for 509 digits and the point. Seen red with a number that was not made taken for one. */
	static char number[600];
	sprintf(number, "{{ 1.%.*d }}", 508, 0);
	gives(number, NULL, "1.0");
	sprintf(number, "{{ 1.%.*d }}", 509, 0);
	fails(number, NULL, COHORT_E_FORMAT, 1, "malformed number");
	gives("{{ (-9223372036854775807 - 1) % -1 }}", NULL, "0");
	fails("\xff", NULL, COHORT_E_FORMAT, -1, "UTF-8");
}

/* Numbers at the edge of 64 bits. */
static void integers_at_the_edge_of_64_bits(void **state)
{
	(void)state;
	gives("{{ 'ab cd ef'|truncate(9223372036854775807) }}", NULL, "ab cd ef");
	fails("{{ (-9223372036854775807 - 1)|round(-1) }}", NULL, COHORT_E_ARG, 1, "64 bits");
	gives("{{ 9223372036854775807|round(-19) }}", NULL, "0");
	fails("{{ '%*5d' % (-9223372036854775807 - 1, 1) }}", NULL, COHORT_E_LIMIT, 1, "width");
	fails("{{ '%*5d' % (1, 1) }}", NULL, COHORT_E_ARG, 1, "format");
	fails("{{ '{99999999999999999999}'.format('x') }}", NULL, COHORT_E_ARG, 1, "");
	fails("{% set n = namespace(r=range(9)) %}{% for i in range(70) %}{% set n.r = n.r[::2] %}{% endfor %}", NULL,
			COHORT_E_ARG, 1, "64 bits");
	gives("{{ 'a'[9223372036854775807:] }}{{ 'abc'[::-9223372036854775807] }}{{ [1][-9223372036854775807:] }}",
			NULL, "c[1]");
	gives("{% set nan = 'nan'|float %}{{ nan < 1 }}{{ [1, nan]|max }}", NULL, "False1");
	gives("{{ '\\u3000\\u00a042\\u00a0'|int }}{{ ' 1.5\\u2003'|float }}{{ '4\\u00e0'|int(7) }}", NULL, "421.57");
	gives("{{ 'a&#xd800;&#xe9;'|striptags }}", NULL, "a\xef\xbf\xbdé");
	/* All parts have their value before the first becomes text. */
	gives("{% set ns = namespace(x=1) %}{% macro m() %}{% set ns.x = 2 %}{% endmacro %}{{ ns ~ m() }}", NULL,
			"<Namespace {'x': 2}>");
}

/* Texts of which one begins the other. What lies behind the shorter one in the template is a quote, and '!' comes
 * before that. */
static void texts_that_begin_each_other(void **state)
{
	(void)state;
	gives("{{ 'a' < 'a!' }}{{ 'a' <= 'a!' }}{{ 'a' > 'a!' }}{{ 'a!' > 'a' }}{{ 'a!' < 'a' }}{{ '' < '!' }}", NULL,
			"TrueTrueFalseTrueFalseTrue");
	gives("{{ ['a!', 'a', '']|sort|join(',') }} {{ ['a!', 'a']|min }} {{ ['a', 'a!']|max }}", NULL, ",a,a! a a!");
	gives("{{ {'a!': 1, 'a': 2}|dictsort }}", NULL, "[('a', 2), ('a!', 1)]");
	gives("{{ [('a!', 1), ('a', 2)]|sort }}", NULL, "[('a', 2), ('a!', 1)]");
	/* From JSON, where other bytes lie behind it. */
	gives("{{ s|sort|join(',') }}{{ s[1] < s[0] }}", "{\"s\": [\"a\\u0001\", \"a\"]}", "a,a\001True");
}

/* Python's results, at the ends of texts and counts. Seen red with a width of 1 taken for none. */
static void ends_of_texts(void **state)
{
	static const char *const cases[][2] = {
			{"[{{ '{:1}'.format('') }}]", "[ ]"},
			{"[{{ '%1s' % '' }}]", "[ ]"},
			{"[{{ '{:2}'.format('é') }}]", "[é ]"},
			{"[{{ '{:1}'.format('ab') }}]", "[ab]"},
			{"[{{ '%2s' % 'é' }}]", "[ é]"},
			{"[{{ 'abc'[::9223372036854775807] }}]", "[a]"},
			{"[{{ 'abc'[::-9223372036854775807] }}]", "[c]"},
			{"[{{ 'abc'[::3] }}]", "[a]"},
			{"[{{ 'abc'[::-3] }}]", "[c]"},
			{"[{{ 'abc'[::4] }}]", "[a]"},
			{"[{{ 'abc'[::-4] }}]", "[c]"},
			{"[{{ 'abc'[::2] }}]", "[ac]"},
			{"[{{ 'abc'[-3:] }}]", "[abc]"},
			{"[{{ 'abc'[-4:] }}]", "[abc]"},
			{"[{{ 'abc'[:-3] }}]", "[]"},
			{"[{{ 'abc'[:-4] }}]", "[]"},
			{"[{{ 'abc'[3:] }}]", "[]"},
			{"[{{ 'abc'[4:] }}]", "[]"},
			{"[{{ 'abc'[2:99] }}]", "[c]"},
			{"[{{ 'abc'[1::-1] }}]", "[ba]"},
			{"[{{ 'abc'[-1:-4:-1] }}]", "[cba]"},
			{"[{{ 'abc'[0:0] }}]", "[]"},
			{"[{{ 'abc'[2:1] }}]", "[]"},
			{"[{{ 'abc'[99::-1] }}]", "[cba]"},
			{"[{{ 'abc'[-99::1] }}]", "[abc]"},
			{"[{{ 'abc'[:99] }}]", "[abc]"},
			{"[{{ 'abc'[:-99:-1] }}]", "[cba]"},
			{"[{{ 'abc'.find('') }}]", "[0]"},
			{"[{{ 'abc'.find('c', 2) }}]", "[2]"},
			{"[{{ 'abc'.find('c', 3) }}]", "[-1]"},
			{"[{{ 'abc'.find('', 3) }}]", "[3]"},
			{"[{{ 'abc'.find('', 4) }}]", "[-1]"},
			{"[{{ 'abc'.rfind('a', 0, 1) }}]", "[0]"},
			{"[{{ 'abc'.rfind('a', 0, 0) }}]", "[-1]"},
			{"[{{ 'abc'.count('', 1) }}]", "[3]"},
			{"[{{ 'aaa'.replace('a', 'b', 0) }}]", "[aaa]"},
			{"[{{ 'aaa'.replace('a', 'b', 3) }}]", "[bbb]"},
			{"[{{ 'aaa'.replace('', '-', 2) }}]", "[-a-aa]"},
			{"[{{ 'a b c'.split(' ', 0) }}]", "[['a b c']]"},
			{"[{{ 'a b c'.split(' ', 1) }}]", "[['a', 'b c']]"},
			{"[{{ 'a b c'.rsplit(' ', 1) }}]", "[['a b', 'c']]"},
			{"[{{ 'a b c'.split(none, 1) }}]", "[['a', 'b c']]"},
			{"[{{ ' a  b '.split() }}]", "[['a', 'b']]"},
			{"[{{ 'ab'.center(3) }}]", "[ ab]"},
			{"[{{ 'ab'.center(4) }}]", "[ ab ]"},
			{"[{{ 'ab'.center(5) }}]", "[  ab ]"},
			{"[{{ 'ab'.ljust(2) }}]", "[ab]"},
			{"[{{ '7'.zfill(1) }}]", "[7]"},
			{"[{{ '-7'.zfill(3) }}]", "[-07]"},
			{"[{{ '\\t'.expandtabs(1) }}]", "[ ]"},
			{"[{{ 'a\\tb'.expandtabs(2) }}]", "[a b]"},
			{"[{{ 'aa\\tb'.expandtabs(2) }}]", "[aa  b]"},
			{"[{{ [1, 2, 3].index(3, 2) }}]", "[2]"},
			{"[{{ [1, 2, 3].index(1, 0, 1) }}]", "[0]"},
			{"[{{ (1, 2, 1).count(1) }}]", "[2]"},
	};
	(void)state;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		gives(cases[i][0], NULL, cases[i][1]);
}

/* None as a bound of a search is none. */
static void from_none(void **state)
{
	(void)state;
	gives("{{ 'abc'.find('a', none, 2) }}{{ 'abc'.rfind('a', none) }}{{ 'abc'.index('a', none, none) }}"
	      "{{ 'abc'.rindex('a', none, 1) }}",
			NULL, "0000");
	gives("{{ 'aba'.count('a', none, 2) }}{{ 'aba'.count('a', none) }}{{ 'aba'.count('a', 1, none) }}", NULL,
			"121");
	gives("{{ 'abc'.startswith('a', none, 2) }}{{ 'abc'.startswith('b', none) }}{{ 'abc'.endswith('abc', none) }}"
	      "{{ 'abc'.endswith('bc', 1, none) }}",
			NULL, "TrueFalseTrueTrue");
}

/* Methods of what is no text, at the ends of what they look at; what Python says of each. Seen red with: a count that
 * leaves out the first item; bounds below 0 that are not counted from the end, or not cut off at it; a reset that
 * leaves a cycler where it is. */
static void methods_of_lists(void **state)
{
	(void)state;
	gives("{{ [1, 2, 1].count(1) }}{{ (3,).count(3) }}{{ [].count(1) }}{{ range(4).count(3) }}", NULL, "2101");
	gives("{{ [1, 2, 1].index(1) }}{{ [1, 2, 1].index(1, 1) }}{{ (5, 6, 5).index(5, -1) }}{{ [1].index(1, -9) }}",
			NULL, "0220");
	gives("{{ [1, 2].index(1, 0, -1) }}{{ [1, 2].index(2, 0, 9) }}{{ [1, 2].index(1, -2, 1) }}", NULL, "010");
	gives("{{ range(3).index(2) }}", NULL, "2");
	/* The same values stand before and behind these. */
	gives("{{ [[1, 1, 1, 1], [1]][1].index(1, -3) }}{{ [[1], [1, 1, 1, 1]][0].count(1) }}", NULL, "01");
	fails("{{ [[1], [2, 2, 2, 2]][0].index(2, 0, 9) }}", NULL, COHORT_E_ARG, 1, "not in the list");
	fails("{{ [1, 2].index(2, 0, 1) }}", NULL, COHORT_E_ARG, 1, "not in the list");
	fails("{{ [1, 2].index(2, 0, -1) }}", NULL, COHORT_E_ARG, 1, "not in the list");
	fails("{{ [1, 2].index(1, 1) }}", NULL, COHORT_E_ARG, 1, "not in the list");
	fails("{{ [1, 2].index(1, 0, -9) }}", NULL, COHORT_E_ARG, 1, "not in the list");
	fails("{{ [1, 2].index(1, 9) }}", NULL, COHORT_E_ARG, 1, "not in the list");
	gives("{% set c = cycler('a', 'b') %}{{ c.current }}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}"
	      "{{ c.reset() }}{{ c.current }}",
			NULL, "aababNonea");
	gives("{% macro m(a, b=1) %}{% endmacro %}{{ m.name }} {{ m.arguments }}", NULL, "m ('a', 'b')");
	gives("{{ (true).real }} {{ (2).real }} {{ (2).imag }} {{ (2.5).real }} {{ (2.5).imag }}", NULL,
			"1 2 0 2.5 0.0");
	gives("{{ {'a': 1}.get('a', 2) }}{{ {'a': 1}.get('b', 2) }}{{ {'a': 1}.get('b') }}{{ {'a': 1}.copy() }}", NULL,
			"12None{'a': 1}");
	fails("{{ [1].append(2) }}", NULL, COHORT_E_ARG, 1, "append() would change a list");
	fails("{{ {}.update({}) }}", NULL, COHORT_E_ARG, 1, "update() would change a dict");
}

static void template_calls_refuse_bad_arguments(void **state)
{
	struct cohort_template_params p;
	struct cohort_template *t = NULL;
	struct cohort_err err;
	char *out;
	size_t n;
	(void)state;

	assert_int_equal(cohort_template_open(NULL, 0, &t, &err), COHORT_E_ARG);
	assert_int_equal(cohort_template_open("x", 1, NULL, &err), COHORT_E_ARG);
	assert_int_equal(cohort_template_open("", 0, &t, NULL), COHORT_OK);
	assert_int_equal(cohort_template_render(t, NULL, &out, &n, NULL), COHORT_OK);
	assert_int_equal(n, 0);
	assert_string_equal(out, "");
	cohort_template_text_free(out);
	assert_int_equal(cohort_template_render(NULL, NULL, &out, &n, &err), COHORT_E_ARG);
	assert_int_equal(cohort_template_render(t, NULL, NULL, &n, &err), COHORT_E_ARG);
	assert_int_equal(cohort_template_render(t, NULL, &out, NULL, &err), COHORT_E_ARG);
	memset(&p, 0, sizeof p);
	assert_int_equal(cohort_template_render(t, &p, &out, &n, &err), COHORT_E_ARG);
	cohort_template_params_init(&p);
	static const char *const times[] = {"", "now", "2025-13-01", "2025-02-29", "2025-01-02T24:00:00",
			"2025-01-02T03:04", "2025-01-02T03:04:05Z", "2025-1-2", "2025- 1- 2", "2025-+1-02",
			"2025-01-02T+3:04:05", "2025-01-02T 3: 4: 5"};
	for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
		p.now = times[i];
		assert_int_equal(cohort_template_render(t, &p, &out, &n, &err), COHORT_E_ARG);
	}
	cohort_template_free(t);
	/* The largest source that is read, and one byte more. */
	const size_t most = (size_t)1 << 22;
	char *blanks = malloc(most + 1);
	assert_non_null(blanks);
	memset(blanks, ' ', most + 1);
	assert_int_equal(cohort_template_open(blanks, most + 1, &t, &err), COHORT_E_LIMIT);
	assert_int_equal(cohort_template_open(blanks, most, &t, &err), COHORT_OK);
	free(blanks);
	cohort_template_free(t);
	cohort_template_free(NULL);
	cohort_template_text_free(NULL);
	cohort_template_params_init(NULL);
	/* Without `now` the clock is asked. */
	char *text = render_n("{{ strftime_now('%Y')|int > 2020 }}", 35, NULL, &n, &err);
	assert_string_equal(text, "True");
	cohort_template_text_free(text);
	/* The default limit, where a width was compared with -1. */
	cohort_template_params_init(&p);
	p.n_bytes_max = SIZE_MAX;
	text = render_n("{{ 'a'|center(3) }}", 19, &p, &n, &err);
	assert_non_null(text);
	assert_string_equal(text, " a ");
	cohort_template_text_free(text);
}

static void any_bytes(void **state)
{
	struct cohort_err err = {0};
	size_t n = 0;
	(void)state;
	char *got = render_n("a\0b{{ '\0' }}{{ 'x\\0y'|length }}", 31, NULL, &n, &err);
	if (!got)
		fail_msg("%s", err.text);
	assert_int_equal(n, 5);
	assert_memory_equal(got, "a\0b\0003", 6);
	cohort_template_text_free(got);
}

static void strftime_now_formats(void **state)
{
	static const char *const cases[][2] = {{"2024-02-29T23:59:59", "Thursday 29 February 2024 060 11 PM"},
			{"2000-01-01", "Saturday 01 January 2000 001 12 AM"},
			{"1999-12-31 12:00:00", "Friday 31 December 1999 365 12 PM"}};
	struct cohort_template_params p;
	struct cohort_err err;
	size_t n;
	(void)state;
	cohort_template_params_init(&p);
	for (size_t i = 0; i < 3; i++) {
		p.now = cases[i][0];
		char *got = render_n("{{ strftime_now('%A %d %B %Y %j %I %p') }}", 42, &p, &n, &err);
		assert_string_equal(got, cases[i][1]);
		cohort_template_text_free(got);
	}
}

static struct cohort_template *shared;

static void *render_many(void *user)
{
	size_t n;
	for (int i = 0; i < 200; i++) {
		char *out;
		if (cohort_template_render(shared, NULL, &out, &n, NULL) || strcmp(out, "0,1,2,|3|[0, 1, 2]") != 0)
			*(int *)user += 1;
		cohort_template_text_free(out);
	}
	return NULL;
}

static void templates_rendered_by_several_threads(void **state)
{
	static const char source[] =
			"{% set ns = namespace(l=[]) %}{% macro m(x) %}{{ x }},{% endmacro %}"
			"{% for i in range(3) %}{{ m(i) }}{% set ns.l = ns.l + [i] %}{% endfor %}|{{ ns.l|length }}"
			"|{{ ns.l }}";
	pthread_t t[3];
	int bad[3] = {0};
	(void)state;
	assert_int_equal(cohort_template_open(source, strlen(source), &shared, NULL), COHORT_OK);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&t[i], NULL, render_many, &bad[i]), 0);
	for (int i = 0; i < 3; i++) {
		pthread_join(t[i], NULL);
		assert_int_equal(bad[i], 0);
	}
	cohort_template_free(shared);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(variables_of_templates),
			cmocka_unit_test(json_values),
			cmocka_unit_test(template_errors_have_their_line),
			cmocka_unit_test(integers_at_the_edge_of_64_bits),
			cmocka_unit_test(texts_that_begin_each_other),
			cmocka_unit_test(ends_of_texts),
			cmocka_unit_test(from_none),
			cmocka_unit_test(methods_of_lists),
			cmocka_unit_test(template_calls_refuse_bad_arguments),
			cmocka_unit_test(any_bytes),
			cmocka_unit_test(strftime_now_formats),
			cmocka_unit_test(templates_rendered_by_several_threads),
	};
	return cmocka_run_group_tests_name("template", tests, NULL, NULL);
}
