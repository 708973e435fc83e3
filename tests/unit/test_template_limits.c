/* Hostile templates end by a status that names the limit and the line, within a small stack; and every allocation of
 * opening and rendering fails in turn: a status each time, no leak (AddressSanitizer looks), and the right text in the
 * end.
 *
 * Shown red by planted faults: iter_next that charges nothing; out_add, take(), tmpl_enter, node_done, enter() of
 * tmpl_expr.c and parse_until without their bounds; a scratch text that is not released when its copy fails; a failed
 * allocation with another status. long_values, many_names: each case but a.split() by leaving out the charge that it
 * is about; many_constants: by constants, and filters behind filters, without one; long_and_well: by a charge for all
 * that is left with every word; limits_follow_from_sizes: by limits that no size changes; exact_limits and
 * exact_memory: by each bound of tmpl_heap.c that lets one more through, or one less. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>

#include "base/mem.h"
#include "base/sum.h"
#include "effort.h"
#include "template/tmpl.h"
#include "template_case.h"

struct job {
	const char *source;
	size_t n;
	struct cohort_template_params p;
	struct cohort_err err;
	char *out;
};

static void *run_job(void *user)
{
	struct job *j = user;
	size_t n;
	j->out = render_n(j->source, j->n, &j->p, &n, &j->err);
	return NULL;
}

/* In a thread with 2 MB of stack, which is a quarter of what programs have. */
static void run_small(struct job *j)
{
	pthread_attr_t attr;
	pthread_t t;
	assert_int_equal(pthread_attr_init(&attr), 0);
	assert_int_equal(pthread_attr_setstacksize(&attr, (size_t)2 << 20), 0);
	assert_int_equal(pthread_create(&t, &attr, run_job, j), 0);
	pthread_join(t, NULL);
	pthread_attr_destroy(&attr);
}

static void limited(const char *source, const char *what)
{
	struct job j = {.source = source, .n = strlen(source)};
	cohort_template_params_init(&j.p);
	j.p.n_steps_max = 300000;
	j.p.n_out_max = 1 << 20;
	j.p.n_bytes_max = (size_t)16 << 20;
	run_small(&j);
	if (j.out || j.err.status != COHORT_E_LIMIT || !strstr(j.err.text, what) || j.err.row < 1)
		fail_msg("%.100s: status %d, line %d: %s", source, (int)j.err.status, (int)j.err.row,
				j.out ? j.out : j.err.text);
	cohort_template_text_free(j.out);
}

/* Two trees of 2^90 leaves, and two lists of 9,000 levels. */
#define START "{% set n = namespace(s=[1], t=[1]) %}"
#define TREES START "{% for a in range(90) %}{% set n.s = [n.s, n.s] %}{% set n.t = [n.t, n.t] %}{% endfor %}"
#define NESTS START "{% for a in range(9000) %}{% set n.s = [n.s] %}{% set n.t = [n.t] %}{% endfor %}"

static void hostile_templates_reach_a_limit(void **state)
{
	(void)state;
	limited("{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}", "steps");
	limited("{% for a in range(90000) %}{% for b in range(90000) if false %}{% endfor %}{% endfor %}", "steps");
	limited("{% for a in range(99999) %}{{ range(99999)|list|length }}{% endfor %}", "");
	limited("{% for a in range(90000) %}{{ 0.5 in range(99999) }}{% endfor %}", "steps");
	limited("\n{% for a in range(90000) %}{{ 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' }}{% endfor %}",
			"bytes of output");
	limited("{{ 'x' * 2000000 }}", "bytes of output");
	limited("{{ 'x' * 2000000000 }}", "");
	limited("{% set a = 'x' * 9000000 %}{% set b = 'y' * 9000000 %}", "memory");
	limited("{{ [0] * 4000000000 }}", "");
	limited("{{ 'x' * 9000000000000000000 }}", "");
	limited("{{ '%1000000d' % 1 ~ '%9999999d' % 1 }}", "width");
	limited("{{ '{:9999999}'.format(1) }}", "width");
	/* More digits were left out without a word. */
	limited("{{ '%.301f' % 0.5 }}", "digits");
	limited("{{ '%.301d' % 5 }}", "digits");
	limited("{{ '{:.301e}'.format(0.5) }}", "digits");
	limited("{{ 'a'.center(99999999) }}", "");
	limited("{{ 'a'|center(99999999999) }}", "");
	limited("{{ 'aaaaaaaa'|indent(99999999) }}", "");
	limited("{{ [1]|batch(99999999, 1)|list }}", "");
	limited("{{ [1]|slice(99999999)|list }}", "");
	limited("{{ 'a\tb'.expandtabs(999999999) }}", "");
	limited("{{ ('a' * 900000).strip('b' * 900000 + 'a') }}", "steps");
	limited("{{ ('a' * 900000).rfind('a' * 300000 + 'b') }}", "steps");
	limited("{{ ('a' * 900000)|wordwrap(4) }}", "steps");
	limited("{% for a in range(99999) %}{{ range(99999)|join|upper|length }}{% endfor %}", "steps");
	limited("{{ range(1, 9000000000000000000, 9000000000000000) }}", "2^40");
	limited("{% set ns = namespace(s='xxxxxxxx') %}{% for a in range(40) %}{% set ns.s = ns.s + ns.s %}{% endfor "
		"%}",
			"");
	limited("{% set ns = namespace(s='xxxxxxxx') %}{% for a in range(40) %}{% set ns.s = ns.s.replace('x', ns.s) "
		"%}{% endfor %}",
			"");
	limited("{% set ns = namespace(s=[1, 2]) %}{% for a in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
			"");
	limited(TREES "{{ n.s }}", "");
	limited(TREES "{{ n.s|tojson }}", "");
	limited(TREES "{{ n.s == n.t }}", "steps");
	limited(NESTS "{{ n.s }}", "levels");
	limited(NESTS "{{ n.s|tojson }}", "levels");
	limited(NESTS "{{ n.s|pprint }}", "levels");
	limited(NESTS "{{ n.s == n.t }}", "levels");
	limited(NESTS "{{ n.s < n.t }}", "levels");
	limited("{% set n = namespace(s=(1,)) %}{% for a in range(40000) %}{% set n.s = (n.s,) %}{% endfor %}"
		"{{ {n.s: 1} }}",
			"levels");
	limited("{% set ns = namespace() %}{% set ns.a = [ns] %}{{ ns }}", "levels");
	limited("{% macro m() %}{{ m() }}{% endmacro %}\n{{ m() }}", "levels");
	limited("{% macro m() %}{% for a in [1] %}{% if true %}{{ [1, {'a': -(m()|length)}] }}{% endif %}{% endfor %}"
		"{% endmacro %}{{ m() }}",
			"levels");
	limited("{% macro m(x=m()) %}{% endmacro %}{{ m() }}", "levels");
	limited("{% macro m() %}{{ caller() }}{% endmacro %}{% macro k() %}{% call m() %}{{ k() }}{% endcall %}{% "
		"endmacro %}{{ k() }}",
			"levels");
	limited("{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}", "levels");
}

/* Work on long values counts for their length: 30 turns reach the limit, where a step each would be nothing. */
static void long_values(void **state)
{
	static const char *const cases[][2] = {
			{"{% set a = [0] * 40000 %}{% set b = [0] * 40000 %}", "a == b"},
			{"{% set a = [0] * 40000 %}{% set b = [0] * 40000 %}", "a < b"},
			{"{% set a = dict(range(20000)|batch(2)) %}{% set b = a.copy() %}", "a == b"},
			{"{% set d = dict(range(20000)|batch(2)) %}{% set a = d.keys() %}{% set b = d.keys() %}",
					"a == b"},
			{"{% set a = 'x' * 2000000 %}", "a.removeprefix(a)"},
			{"{% set a = 'x' * 2000000 %}{% set b = 'x' * 2000000 %}", "a is sameas b"},
			{"{% set a = 'x' * 2000000 %}{% set b = 'x' * 2000000 %}", "[a].index(b)"},
			{"{% set a = 'x' * 2000000 %}", "a is lower"},
			{"{% set a = '0' * 2000000 %}", "a|int"},
			{"{% set a = ' ' * 2000000 %}", "a|float"},
			{"{% set a = ' ' * 2000000 %}", "a.split()"},
			{"{% set a = 'x' * 100000 %}{% set b = [1] * 40 %}", "b|map(attribute=a)|list"},
			{"{% set a = 'x' * 20000 %}{% set b = 'y' * 60 + 'x' %}", "a.strip(b)"},
			{"{% set a = '%d' * 20000 %}{% set b = (1,) * 20000 %}", "a % b"},
			{"{% set a = '{0}' * 20000 %}", "a.format('')"},
			{"{% set a = '%c' * 9000 %}", "strftime_now(a)"},
			/* Floats, of which each takes its time. */
			{"{% set a = '%g' * 2000 %}{% set b = (0.1,) * 2000 %}", "a % b"},
			{"{% set a = [0.1] * 2000 %}", "a|string"},
			{"{% set a = [0.1] * 2000 %}", "a|tojson"},
			{"{% set a = [0.1] * 2000 %}", "a|map('round', 1)|list"},
	};
	char source[500];
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		snprintf(source, sizeof source, "%s{%% for i in range(30) %%}{%% set x = %s %%}{%% endfor %%}",
				cases[i][0], cases[i][1]);
		limited(source, "steps");
	}
	limited("{% set a = 'x' * 2000000 %}{% set b = 'x' * 1999999 + 'y' %}{{ a.startswith((b,) * 30) }}", "steps");
	/* Found at 1: each place before that differs late. */
	limited("{% set a = 'a' * 1000000 + 'b' + 'a' * 400 %}{{ a.rfind('a' * 999999 + 'b') }}", "steps");
}

/* Many names count, too, wherever they are looked for one by one. */
static void many_names(void **state)
{
	enum { N = 1000 };
	static const char *const cases[] = {
			"{% for i in range(2000) %}{{ v999 }}{% endfor %}",
			"{{ m(**d) }}",
			"{% set x = ('{k999}' * 2000).format(**d) %}",
	};
	char *source = malloc(100 * N), *at = source;
	(void)state;
	assert_non_null(source);
	for (int i = 0; i < N; i++)
		at += sprintf(at, "{%% set v%03d = 1 %%}", i);
	at += sprintf(at, "{%% macro m(k000=0");
	for (int i = 1; i < N; i++)
		at += sprintf(at, ",k%03d=0", i);
	at += sprintf(at, ") %%}{%% endmacro %%}{%% set d = {");
	for (int i = 0; i < N; i++)
		at += sprintf(at, "'k%03d': 1,", i);
	at += sprintf(at, "} %%}");
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct job j = {.source = source};
		strcpy(at, cases[i]);
		j.n = strlen(source);
		cohort_template_params_init(&j.p);
		j.p.n_steps_max = 130000; /* a step for each turn would do with a part of it */
		run_small(&j);
		if (j.out || j.err.status != COHORT_E_LIMIT || !strstr(j.err.text, "steps"))
			fail_msg("%s: %s", cases[i], j.out ? j.out : j.err.text);
		cohort_template_text_free(j.out);
	}
	/* Setting the same name again and again. */
	for (int i = 0; i < 2000; i++)
		at += sprintf(at, "{%% set v999 = 2 %%}");
	struct job j = {.source = source, .n = strlen(source)};
	cohort_template_params_init(&j.p);
	j.p.n_steps_max = 130000;
	run_small(&j);
	assert_null(j.out);
	assert_int_equal(j.err.status, COHORT_E_LIMIT);
	free(source);
}

/* What a rendering costs, to the step: the fewest with which it goes through. Seen red with one step more for each text
 * that replaces another. */
static void steps_of_templates(void **state)
{
	static const struct {
		const char *source;
		uint64_t n_steps;
	} cases[] = {
			{"{{ 'a-b-c'.replace('-', '+') }}", 8},
			{"{{ ('ab ' * 40).split()|join('/')|upper|length }}", 132},
			{"{% for k, v in {'a': 1, 'b': [2, 3]}.items() %}"
			 "{{ k }}={{ v|tojson }}{% endfor %}",
					43},
			{"{{ [3, 1, 2]|sort|map('string')|list }}"
			 "{{ [1, 2, 3, 4]|batch(3, 0)|list }}{{ range(9)|slice(4)|list }}",
					150},
			{"{% macro m(a, b=2) %}{{ a + b }}{% endmacro %}{{ m(1) }}{{ m(a=1, b=3) }}", 28},
			{"{{ '%5d|%-5s|%x|%.2f' % (1, 'a', 255, 0.5) }}{{ '{0:>5}{k}'.format(1, k='b') }}", 39},
			{"{{ 'some words to wrap'|wordwrap(9) }}{{ ' x '|trim }}"
			 "{{ 'a\tb'.expandtabs(4) }}{{ 'ab'|center(9) }}",
					23},
			{"{{ (1, 2) == (1, 2) }}{{ {(1, 2): 3}[(1, 2)] }}{{ 'b' in 'abc' }}"
			 "{{ 2 in [1, 2] }}{{ 'abc'[::-1] }}",
					49},
			{"{{ [{'a': 2}, {'a': 1}]|groupby('a')|list }}"
			 "{{ [{'a': 2}]|selectattr('a', 'eq', 2)|list }}",
					70},
			{"{{ '<b>x</b>'|striptags|escape|title|replace('x', 'y')|indent(2)|truncate(9) }}", 20},
			{"{% set n = namespace(a=1) %}{% set n.a = n.a + 1 %}{{ n.a }}"
			 "{% filter upper %}x{% endfilter %}{% with b = 2 %}{{ b }}"
			 "{% endwith %}",
					23},
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		uint64_t lo = 0, hi = 100000; /* too few; enough */
		while (hi - lo > 1) {
			struct job j = {.source = cases[i].source, .n = strlen(cases[i].source)};
			cohort_template_params_init(&j.p);
			j.p.n_steps_max = (lo + hi) / 2;
			run_job(&j);
			if (!j.out && j.err.status != COHORT_E_LIMIT)
				fail_msg("%s: %s", j.source, j.err.text);
			*(j.out ? &hi : &lo) = (lo + hi) / 2;
			cohort_template_text_free(j.out);
		}
		if (hi != cases[i].n_steps)
			fail_msg("%s: %llu steps, not %llu", cases[i].source, (unsigned long long)hi,
					(unsigned long long)cases[i].n_steps);
	}
}

/* What is long but harmless stays well within the default limits. */
static void long_and_well(void **state)
{
	static const char *const cases[][2] = {
			{"{{ ('ab ' * 100000).split()|length }}", "100000"},
			{"{{ ('ab ' * 100000).rsplit(none, 5)|length }}", "6"},
			{"{{ ('word ' * 200000)|wordwrap|length }}", "999999"},
	};
	struct cohort_err err;
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char *got = render(cases[i][0], NULL, &err);
		if (!got)
			fail_msg("%s: %s", cases[i][0], err.text);
		assert_string_equal(got, cases[i][1]);
		cohort_template_text_free(got);
	}
}

/* n times a, then b, then n times c. */
static char *pile(const char *a, const char *b, const char *c, size_t n)
{
	const size_t na = strlen(a), nb = strlen(b), nc = strlen(c);
	char *s = malloc(n * (na + nc) + nb + 1), *at = s;
	assert_non_null(s);
	for (size_t i = 0; i < n; i++, at += na)
		memcpy(at, a, na);
	memcpy(at, b, nb);
	at += nb;
	for (size_t i = 0; i < n; i++, at += nc)
		memcpy(at, c, nc);
	*at = '\0';
	return s;
}

/* What a rendering may take follows from the sizes of the template and of its data: 78 bytes took 512 MiB, and 115 took
 * 20 million steps. What is long because its data are long goes through. */
static void limits_follow_from_sizes(void **state)
{
	static const char greedy[] =
			"{% for i in range(100000) %}{{ ('a'*10000).startswith('a'*9999) }}{% endfor %}";
	static const char slow[] = "{% for i in range(90000) %}{% for k in range(90000) %}{% endfor %}{% endfor %}";
	static const char pieces[] = "{% set n = namespace(s=[]) %}{% for m in messages %}{% set n.s = n.s + [m] %}"
				     "{% endfor %}{{ n.s|length }}";
	enum { N = 4000 };
	struct cohort_template_params p;
	struct cohort_err err;
	size_t n;
	(void)state;
	assert_null(render(greedy, NULL, &err));
	assert_int_equal(err.status, COHORT_E_LIMIT);
	assert_non_null(strstr(err.text, "bytes of memory"));
	assert_int_equal(atoll(strstr(err.text, "more than ") + 10), (8 << 20) + 128 * (sizeof greedy - 1));
	assert_null(render(slow, NULL, &err));
	assert_int_equal(err.status, COHORT_E_LIMIT);
	assert_int_equal(atoll(strstr(err.text, "more than ") + 10), 2000000 + 64 * (sizeof slow - 1));
	char *json = pile(",\"some text\"", "]", "", N);
	json[0] = '[';
	cohort_template_params_init(&p);
	p.messages = json;
	p.n_bytes_max = (size_t)8 << 20; /* which the data alone do not explain */
	assert_null(render_n(pieces, sizeof pieces - 1, &p, &n, &err));
	p.n_bytes_max = (size_t)512 << 20; /* what the caller says counts */
	p.n_steps_max = 20000000;
	char *got = render_n(pieces, sizeof pieces - 1, &p, &n, &err);
	if (!got)
		fail_msg("%s", err.text);
	assert_string_equal(got, "4000");
	cohort_template_text_free(got);
	free(json);
}

/* What costs little by itself counts where there is a lot of it: 300 turns reach the limit, where a step for each would
 * be nothing. 36 KB of the first kept a processor busy for hours. */
static void many_constants(void **state)
{
	static const char *const cases[][3] = {
			{"{% if 0 %}", "{% elif 0 %}", "{% endif %}"},
			{"{% set x = 1", " == 1", " %}"},
			{"{% set x = {1: 1", ", 1: 1", "} %}"},
			{"{% for k in [1] * 10 %}{% set x = 1", "|abs", " %}{% endfor %}"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char *s = pile("", "", cases[i][1], i == 3 ? 200 : 2000), *source = malloc(40000);
		assert_non_null(source);
		snprintf(source, 40000, "{%% for i in range(300) %%}%s%s%s{%% endfor %%}", cases[i][0], s, cases[i][2]);
		limited(source, "steps");
		free(source);
		free(s);
	}
}

static void deeply_nested_templates(void **state)
{
	static const char *const cases[][3] = {
			{"{% if 1 %}", "x", "{% endif %}"},
			{"{% for a in b %}", "x", "{% endfor %}"},
			{"{% set a %}", "x", "{% endset %}"},
			{"{% with %}", "x", "{% endwith %}"},
	};
	static const char *const inner[][3] = {
			{"(", "1", ")"},
			{"[", "1", "]"},
			{"{1:", "1", "}"},
			{"-", "1", ""},
			{"not ", "1", ""},
			{"", "1", "+1"},
			{"", "1", "~1+1"},
			{"", "a", ".a"},
			{"", "a", "[0]"},
			{"", "a", "|string"},
			{"", "a", "()"},
			{"1 if 1 else ", "1", ""},
			{"", "1", " if 1"},
			{"1 and ", "1", ""},
			{"1 < ", "1", ""},
			{"1 ** ", "1", ""},
			{"a(", "1", ")"},
			{"a|f(", "1", ")"},
			{"a[", "1", "]"},
			{"a is eq ", "1", ""},
			{"1, ", "1", ""},
			{"1 ~ ", "1", ""},
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char *s = pile(cases[i][0], cases[i][1], cases[i][2], (size_t)effort(100000));
		struct job j = {.source = s, .n = strlen(s)};
		cohort_template_params_init(&j.p);
		run_small(&j);
		if (j.out || j.err.status != COHORT_E_LIMIT || !strstr(j.err.text, "levels deep"))
			fail_msg("%s: %s", cases[i][0], j.err.text);
		free(s);
	}
	for (size_t i = 0; i < sizeof inner / sizeof *inner; i++) {
		char *expr = pile(inner[i][0], inner[i][1], inner[i][2], (size_t)effort(200000));
		char *s = pile("{{ ", expr, " }}", 1);
		struct job j = {.source = s, .n = strlen(s)};
		cohort_template_params_init(&j.p);
		run_small(&j); /* refused, or (long lists) well */
		if (!j.out && (j.err.status != COHORT_E_LIMIT || !strstr(j.err.text, "levels deep")) &&
				!strstr(j.err.text, "'is'") && !strstr(j.err.text, "a test of a test"))
			fail_msg("%s%s%s: %s", inner[i][0], inner[i][1], inner[i][2], j.err.text);
		cohort_template_text_free(j.out);
		free(expr);
		free(s);
	}
	char *json = pile("[", "1", "]", 100000);
	struct job j = {.source = "x", .n = 1};
	cohort_template_params_init(&j.p);
	j.p.messages = json;
	run_small(&j);
	assert_null(j.out);
	assert_int_equal(j.err.status, COHORT_E_LIMIT);
	free(json);
}

/* Uses a little of everything that allocates. */
static const char everything[] =
		"{% macro m(a, b='x') %}{{ a ~ b }}{{ varargs }}{{ kwargs }}{{ caller() if caller }}{% endmacro %}"
		"{% set ns = namespace(l=[], d={'a': (1, 2.5), 'b': none}) %}"
		"{% for k, v in d.items() if k %}{{ loop.index }}{{ loop.last }}{% set ns.l = ns.l + [k ~ '\\n'] %}"
		"{% endfor %}"
		"{% call m(1, 'y', 3, z=4) %}c{% endcall %}{% set q | upper %}blk{% endset %}{{ q }}"
		"{{ ns.l|sort|join(', ') }}{{ ns.d }}{{ ns.d|tojson(indent=1) }}{{ ns.d|pprint }}{{ d|dictsort }}"
		"{{ '%s %05.1f' % ('é', 2.25) }}{{ '{:>5} {a[0]!r}'.format('x', a=['q']) }}{{ 'a,b c'.split(',') }}"
		"{{ users|groupby('city')|map(attribute='grouper')|list }}{{ users|selectattr('n', 'gt', "
		"1)|list|length }}"
		"{{ 'äÖ'.title()|replace('ä', 'x') }}{{ '<b>&amp;x</b>'|striptags|e }}{{ 'a b c d'|wordwrap(3) }}{{ "
		"'a\\nb'|indent }}"
		"{% for t in tree recursive %}{{ t.n }}{{ loop(t.c) }}{% endfor %}{{ range(9)|batch(2)|list }}{{ [3, "
		"1]|unique|list }}"
		"{{ strftime_now('%Y') }}{% with x = 1 %}{{ x }}{% endwith %}{% filter trim %} f {% endfilter %}{{ "
		"{'a b': 1}|urlencode }}"
		"{{ {'x': '\"'}|xmlattr }}{{ dict(a=1, **d)|length }}{{ 'abc'[::-1] }}{{ cycler(1, 2).next() }}{{ "
		"(1, 2)[:1] }}";
static const char everything_vars[] =
		"{\"d\": {\"a\\n\": 1, \"b\": \"\\u00e9\", \"c\": [1, {}], \"d\": 1, \"e\": 1, \"f\": 1, \"g\": "
		"1, \"h\": 1, \"i\": 1, \"j\": 1},"
		"\"users\": [{\"city\": \"b\", \"n\": 1}, {\"city\": \"A\", \"n\": 2}], \"tree\": [{\"n\": 1, \"c\": "
		"[{\"n\": 2, \"c\": []}]}]}";

static void template_out_of_memory_at_every_point(void **state)
{
	struct cohort_err err;
	(void)state;
	char *want = render(everything, everything_vars, &err);
	if (!want)
		fail_msg("%s", err.text);
	int64_t n = 0;
	for (;; n++) {
		const uint64_t before = mem_count();
		mem_fail_after(n);
		err = (struct cohort_err){0};
		char *got = render(everything, everything_vars, &err);
		mem_fail_after(-1);
		if (got) {
			assert_true(mem_count() - before <= (uint64_t)n); /* nothing failed */
			assert_string_equal(got, want);
			cohort_template_text_free(got);
			break;
		}
		if (err.status != COHORT_E_MEMORY)
			fail_msg("allocation %d: status %d, %s", (int)n, (int)err.status, err.text);
	}
	assert_true(n > 20);
	cohort_template_text_free(want);
}

static uint64_t outcome_added(uint64_t h, const char *source)
{
	struct cohort_err err = {.row = -1};
	char *got = render(source, everything_vars, &err);
	const char *text = got ? got : err.text;

	h = sum_lane(sum_bytes(h, text, strlen(text)), got ? 0 : (uint64_t)err.row + 1);
	cohort_template_text_free(got);
	return h;
}

/* That template cut at every byte and with every byte changed: one sum of all outcomes, which says that something has
 * changed, not what. Seen red with bounds of tmpl_lex.c and tmpl_parse.c one off. */
static void templates_cut_and_changed(void **state)
{
	static const char others[] = "%}'(|.x";
	char source[sizeof everything];
	uint64_t h = 0;
	(void)state;

	for (size_t i = 0; i < sizeof everything; i++) {
		memcpy(source, everything, sizeof everything);
		source[i] = '\0';
		h = outcome_added(h, source);
		if (i + 1 < sizeof everything) {
			source[i] = others[i % (sizeof others - 1)];
			h = outcome_added(h, source);
		}
	}
	if (h != 0x76be5c8c43b0d1c4u)
		fail_msg("the sum of all outcomes is 0x%llx", (unsigned long long)h);
}

/* Near its limit a run asks for each piece by itself, so that each can be the one that does not come. Seen red with an
 * allocation's failure ignored. */
static void every_piece_is_refused(void **state)
{
	struct cohort_template_params p;
	struct cohort_err err;
	size_t n, n_refused = 0;
	(void)state;

	cohort_template_params_init(&p);
	p.extra = everything_vars;
	p.now = "2025-01-02T03:04:05";
	for (p.n_bytes_max = 64;; p.n_bytes_max += 32, n_refused++) {
		char *got = render_n(everything, sizeof everything - 1, &p, &n, &err);
		cohort_template_text_free(got);
		if (got)
			break;
		if (err.status != COHORT_E_LIMIT || !strstr(err.text, "bytes of memory"))
			fail_msg("%zu bytes: %s", p.n_bytes_max, err.text);
	}
	assert_true(n_refused > 500);
}

/* Every smaller limit is a clean end, too. */
static void small_limits(void **state)
{
	struct cohort_template_params p;
	struct cohort_err err;
	size_t n;
	(void)state;
	for (size_t max = 0; max < 400000; max += max < 2000 ? 7 : 5003)
		for (int which = 0; which < 4; which++) {
			cohort_template_params_init(&p);
			p.extra = everything_vars;
			p.now = "2025-01-02";
			if (which == 0)
				p.n_steps_max = max;
			else if (which == 1)
				p.n_out_max = max;
			else if (which == 2)
				p.n_bytes_max = max;
			else
				p.depth_max = (uint32_t)max;
			char *got = render_n(everything, sizeof everything - 1, &p, &n, &err);
			if (!got && (err.status != COHORT_E_LIMIT || !err.text[0]))
				fail_msg("limit %d of %zu: %s", which, max, err.text);
			if (got && max == 0)
				fail_msg("limit %d does not limit", which);
			cohort_template_text_free(got);
		}
}

static bool renders(const char *source, const char *messages, uint64_t n_steps_max, size_t n_out_max,
		uint32_t depth_max, const char *what)
{
	struct cohort_template_params p;
	struct cohort_err err = {0};
	size_t n;

	cohort_template_params_init(&p);
	p.messages = messages;
	p.now = "2025-01-02T03:04:05";
	p.n_steps_max = n_steps_max;
	p.n_out_max = n_out_max;
	p.depth_max = depth_max;
	char *got = render_n(source, strlen(source), &p, &n, &err);
	if (!got && (err.status != COHORT_E_LIMIT || !strstr(err.text, what)))
		fail_msg("%s: status %d, %s", source, (int)err.status, err.text);
	cohort_template_text_free(got);
	return got != NULL;
}

/* The least that passes, and one less. A level of JSON is a level, and so is the template itself; a piece of text is a
 * step, a value of JSON as well, and 64 bytes of output are one more. */
static void exact_limits(void **state)
{
	const struct {
		const char *source, *messages;
		uint64_t n_steps;
		uint32_t depth;
	} cases[] = {
			{"abc", NULL, 1, 1},
			{"abc", "[]", 2, 1},
			{"abc", "[[[1]]]", 5, 4},
			{"0123456789012345678901234567890123456789012345678901234567890123", NULL, 2, 1},
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const char *s = cases[i].source, *m = cases[i].messages;
		const size_t n = strlen(s);
		const uint64_t steps = cases[i].n_steps;
		const uint32_t depth = cases[i].depth;
		assert_true(renders(s, m, steps, n, depth, ""));
		assert_false(renders(s, m, steps - 1, n, depth, "steps"));
		assert_false(renders(s, m, steps, n - 1, depth, "bytes of output"));
		assert_false(renders(s, m, steps, n, depth - 1, "levels deep"));
	}
}

/* ---- Work ---- */

/* The least number of steps that it takes. */
static uint64_t least_steps(const char *source)
{
	uint64_t lo = 0, hi = 1 << 17; /* lo is too few */

	if (!renders(source, NULL, hi, 1 << 20, 100, ""))
		fail_msg("%s: too many steps", source);
	while (hi - lo > 1) {
		const uint64_t mid = lo + (hi - lo) / 2;
		if (renders(source, NULL, mid, 1 << 20, 100, "steps"))
			hi = mid;
		else
			lo = mid;
	}
	return hi;
}

/* What each kind of work costs, exactly: a template and its steps in each line of the file, over a text of 2997 bytes
 * (s), one of 4096 (t), lists of 100 (l, k) and dictionaries of 6 (d, e); larger ones have hashes of their own each
 * time. A line that is not right is printed as it should be. Seen red with 70 of 83 faults in lines with a charge. */
static void exact_steps(void **state)
{
	static const char vars[] = "{% set s = 'aB ' * 999 %}{% set t = 'x' * 4096 %}{% set l = range(100)|list %}"
				   "{% set k = range(100)|list %}{% set d = dict(range(12)|batch(2)) %}"
				   "{% set e = dict(range(12)|batch(2)) %}";
	FILE *f = fopen("tests/golden/data/template-steps.txt", "rb");
	char line[1000], source[sizeof line + sizeof vars];
	size_t n_lines = 0, n_bad = 0;
	(void)state;

	assert_non_null(f);
	for (; fgets(line, sizeof line, f); n_lines++) {
		char *text;
		const uint64_t want = strtoull(line, &text, 10);
		snprintf(source, sizeof source, "%s%s", vars, text + 1);
		if (renders(source, NULL, want, 1 << 20, 100, "steps") &&
				!renders(source, NULL, want - 1, 1 << 20, 100, "steps"))
			continue;
		print_error("%llu%s", (unsigned long long)least_steps(source), text);
		n_bad++;
	}
	fclose(f);
	assert_int_equal(n_bad, 0);
	assert_true(n_lines > 200);
}

/* The limits of a caller who names none, as the errors tell them. A text of n bytes of JSON is there, if n > 0. */
static void default_limit(const char *source, int which, size_t n, const char *want)
{
	struct cohort_template_params p;
	struct cohort_err err = {0};
	char *json = mem_alloc(n + 1, 1);
	size_t n_out;

	assert_non_null(json);
	memset(json, ' ', n + 1);
	if (n > 0)
		memcpy(json, which == 0 ? "[]" : "{}", 2);
	json[n] = '\0';
	cohort_template_params_init(&p);
	const char **const texts[] = {&p.messages, &p.tools, &p.documents, &p.extra};
	*texts[which] = n ? json : NULL;
	char *got = render_n(source, strlen(source), &p, &n_out, &err);
	if (got || err.status != COHORT_E_LIMIT || !strstr(err.text, want))
		fail_msg("%s, %zu bytes: status %d, '%s', not '%s'", source, n, (int)err.status, err.text, want);
	mem_free(json);
}

/* Seen red with any of the four texts left out of the sum, each factor one more, and any of the numbers. */
static void default_limits(void **state)
{
	const char *steps = "{{ ('a' * 900000).rfind('a' * 300000 + 'b') }}", *bytes = "{{ 'x' * 99999999 }}",
		   *more_bytes = "{{ 'x' * 599999999 }}";
	char want[64];
	(void)state;

	for (int which = 0; which < 4; which++) {
		const size_t n = 1000;
		snprintf(want, sizeof want, "more than %zu steps", 2000000 + 64 * (strlen(steps) + n));
		default_limit(steps, which, n, want);
		snprintf(want, sizeof want, "more than %zu bytes", (8 << 20) + 128 * (strlen(bytes) + n));
		default_limit(bytes, which, n, want);
	}
	default_limit(steps, 0, 281249 - strlen(steps), "more than 19999936 steps");
	default_limit(steps, 0, 281251 - strlen(steps), "more than 20000000 steps");
	default_limit(more_bytes, 0, 4128767 - strlen(more_bytes), "more than 536870784 bytes");
	default_limit(more_bytes, 0, 4128769 - strlen(more_bytes), "more than 536870912 bytes");
	default_limit("{% set s = 'x' * 1000000 %}{% for i in range(68) %}{{ s }}{% endfor %}", 0, 1000000,
			"more than 67108864 bytes of output");
	default_limit("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", 0, 0, "400 levels");
}

/* Memory: what is counted is what the system was asked for, and all of it may be used. */
static void exact_memory(void **state)
{
	enum { N = 100 };
	struct run r = {.n_bytes_max = (size_t)1 << 20};
	struct bytes t = {0};
	(void)state;

	/* A piece with room behind it, as long as that fits. */
	assert_non_null(tmpl_alloc(&r, N, 1));
	const size_t roomy = r.n_bytes;
	tmpl_release(&r);
	r = (struct run){.n_bytes_max = roomy};
	assert_non_null(tmpl_alloc(&r, N, 1));
	assert_int_equal(r.n_bytes, roomy);
	tmpl_release(&r);
	/* Without that room where one byte is missing. */
	r = (struct run){.n_bytes_max = roomy - 1};
	assert_non_null(tmpl_alloc(&r, N, 1));
	const size_t least = r.n_bytes;
	assert_true(least >= N && least < roomy);
	tmpl_release(&r);
	r = (struct run){.n_bytes_max = least};
	assert_non_null(tmpl_alloc(&r, N, 1));
	assert_int_equal(r.n_bytes, least);
	tmpl_release(&r);
	r = (struct run){.n_bytes_max = least - 1};
	assert_null(tmpl_alloc(&r, N, 1));
	assert_int_equal(r.status, COHORT_E_LIMIT);
	assert_non_null(strstr(r.message, "bytes of memory"));
	tmpl_release(&r);
	/* Aligned behind texts of any length. */
	r = (struct run){.n_bytes_max = roomy};
	for (size_t n = 1; n < 40; n++) {
		assert_non_null(tmpl_bytes(&r, n));
		assert_int_equal((uintptr_t)tmpl_alloc(&r, 1, 1) % 16, 0);
	}
	tmpl_release(&r);
	/* A text under construction. */
	r = (struct run){.n_bytes_max = 4};
	assert_true(buf_add(&r, &t, "abc", 3));
	assert_true(buf_add(&r, &t, "d", 1));
	assert_false(buf_add(&r, &t, "e", 1));
	assert_int_equal(r.status, COHORT_E_LIMIT);
	assert_int_equal(t.n, 4);
	bytes_release(&t);
	tmpl_release(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
			cmocka_unit_test(hostile_templates_reach_a_limit),
			cmocka_unit_test(long_values),
			cmocka_unit_test(many_names),
			cmocka_unit_test(steps_of_templates),
			cmocka_unit_test(long_and_well),
			cmocka_unit_test(limits_follow_from_sizes),
			cmocka_unit_test(many_constants),
			cmocka_unit_test(deeply_nested_templates),
			cmocka_unit_test(template_out_of_memory_at_every_point),
			cmocka_unit_test(templates_cut_and_changed),
			cmocka_unit_test(every_piece_is_refused),
			cmocka_unit_test(small_limits),
			cmocka_unit_test(exact_limits),
			cmocka_unit_test(exact_steps),
			cmocka_unit_test(default_limits),
			cmocka_unit_test(exact_memory),
	};
	return cmocka_run_group_tests_name("template_limits", tests, NULL, NULL);
}
