/* The template room's own header: values, nodes, the state of a run, and who offers what to whom.
 *
 * One struct run serves parsing and rendering. It holds the arena, the limits and the first failure: functions that
 * cannot go on call tmpl_fail() and return something harmless, and callers look at r->failed before they go on. Only
 * the first failure is kept, so nobody has to be careful about who reports. */
#ifndef TEMPLATE_TMPL_H
#define TEMPLATE_TMPL_H

#include "base/bytes.h"
#include "cohort.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* ---- Values: sixteen bytes, passed by value, never changed once made (but for namespaces and the like) ---- */

enum val_type {
	V_MISSING, /* no value at all: an argument that was not given */
	V_UNDEF, V_NONE, V_BOOL, V_INT, V_FLOAT, V_STR, V_LIST, V_TUPLE, V_DICT, V_RANGE, V_VIEW, V_ITER, V_NS, V_FUNC,
	V_MACRO, V_LOOP, V_CYCLER, V_JOINER
};

enum val_flag {
	F_MARKUP = 1, /* V_STR: marked as escaped */
	F_GROUP = 2   /* V_TUPLE: of groupby, with the attributes grouper and list */
};

struct val {
	uint8_t type, flag;
	uint32_t n; /* V_STR: bytes; V_LIST, V_TUPLE: items */
	union {
		bool b;
		int64_t i;
		double f;
		const char *s;      /* UTF-8, not terminated; may be part of a longer text */
		struct val *items;  /* [n] */
		struct dict *dict;  /* V_DICT and V_NS */
		struct range *range;
		struct view *view;
		struct iter *iter;
		struct func *func;
		struct macro *macro;
		struct loop *loop;
		struct undef *undef;
		struct cycler *cycler;
		void *p;
	} u;
};

struct pair {
	struct val key, value;
	uint32_t hash;
};
struct dict { /* in order of insertion */
	struct pair *pairs;
	uint32_t *index; /* [n_index] number of the pair + 1, or 0; NULL while the dict is small */
	uint32_t n, n_max, n_index;
};
struct range {
	int64_t start, stop, step, n;
};
enum view_kind { VIEW_KEYS, VIEW_VALUES, VIEW_ITEMS };
struct view {
	struct dict *dict;
	enum view_kind kind;
};
struct iter { /* one walk over `of`; as a value (V_ITER) it can be walked once only */
	struct val of;
	uint32_t at;
	const char *name;  /* what Python prints for it */
	const char *error; /* what comes behind the last item, or NULL */
};
struct undef { /* why something is undefined, for the message */
	const char *hint;
	struct val obj; /* V_MISSING: a variable */
	struct val name;
};
struct cycler {
	struct val items;
	uint32_t at; /* V_JOINER: whether it was called before */
};

/* ---- Nodes ---- */

enum node_type {
	N_CONST, N_NAME, N_TUPLE, N_LIST, N_DICT, N_COND, N_AND, N_OR, N_NOT, N_COMPARE, N_OPERAND, N_BINARY, N_CONCAT,
	N_NEG, N_POS, N_ATTR, N_ITEM, N_SLICE, N_CALL, N_KEYWORD, N_FILTER, N_TEST,
	N_TEXT, N_PRINT, N_IF, N_BRANCH, N_FOR, N_SET, N_SETBLOCK, N_NSREF, N_MACRO, N_PARAM, N_CALLBLOCK,
	N_FILTERBLOCK, N_WITH, N_SCOPE, N_AUTOESCAPE, N_DO, N_BREAK, N_CONTINUE
};

enum op { OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_FLOORDIV, OP_MOD, OP_POW,
	OP_EQ, OP_NE, OP_LT, OP_LE, OP_GT, OP_GE, OP_IN, OP_NOTIN };

/* What the fields hold depends on the type; tmpl_parse.c and tmpl_expr.c say so where they make one. */
struct node {
	uint8_t type, op;
	bool flag;
	uint8_t uses;    /* N_MACRO, N_CALLBLOCK: enum macro_uses; N_FOR: whether its body defines macros */
	uint16_t height; /* of the tree below; bounded */
	uint32_t line, sym, n_list, n_more;
	int32_t known;   /* N_FILTER, N_TEST: number in the table, or -1 */
	struct val v;
	struct node *a, *b, *c, **list, **more;
};
enum macro_uses { USES_CALLER = 1, USES_KWARGS = 2, USES_VARARGS = 4 };

/* ---- The arena ---- */

struct chunk {
	struct chunk *next;
	size_t at, n_bytes;
	_Alignas(16) char bytes[];
};

/* The first names of every template. */
enum { SYM_LOOP, SYM_CALLER, SYM_KWARGS, SYM_VARARGS, N_SYMS };

struct var {
	uint32_t sym;
	struct val value;
};
struct scope {
	struct scope *parent;
	struct var *vars;
	uint32_t n, n_max;
};

struct run {
	/* the first failure */
	bool failed;
	enum cohort_status status;
	uint32_t line, failed_line; /* of what is being worked on, and of the failure */
	char message[400];

	/* memory and limits */
	struct chunk *chunks;
	size_t n_bytes, n_bytes_max;
	uint64_t n_steps, n_steps_max;
	uint32_t depth, depth_max;
	size_t n_out_max;

	/* rendering */
	const struct dict *syms; /* identifiers of the template; the number of its pair is a name's number */
	struct val *globals;     /* [syms->n] */
	struct scope *scope;
	struct bytes out;
	struct tm now;
	bool has_now;
};

struct macro {
	const struct node *node; /* N_MACRO or N_CALLBLOCK */
	struct scope *scope;     /* where it was defined */
	struct val name;
};

struct kwarg {
	struct val name, value;
};
struct args {
	struct val *pos;
	size_t n_pos;
	struct kwarg *kw;
	size_t n_kw;
};

struct func { /* a function, or a method with its object */
	const struct method *method;
	struct val self;
};

/* ---- tmpl_heap.c: failures, limits, memory, text that grows ---- */

bool tmpl_fail(struct run *r, enum cohort_status status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* An error that the template or its data is to blame for. */
#define tmpl_error(r, ...) tmpl_fail((r), COHORT_E_ARG, __VA_ARGS__)
/* Counts work; false when there was too much of it. */
bool tmpl_charge(struct run *r, uint64_t n);
/* One level deeper; false (and no level) when too deep. */
bool tmpl_enter(struct run *r);
void tmpl_leave(struct run *r);
/* From the arena, aligned, not cleared; NULL after a failure. */
void *tmpl_alloc(struct run *r, size_t n, size_t size);
char *tmpl_bytes(struct run *r, size_t n);
/* The last n bytes that tmpl_bytes gave end at p: makes them k longer in place, if there is room. */
bool tmpl_extend(struct run *r, const char *p, size_t n, size_t k);
void tmpl_release(struct run *r);
/* Grows the array *p of *n_max elements for n_want; in the arena, so that the old one is only forgotten. */
bool tmpl_grow(struct run *r, void **p, uint32_t *n_max, size_t n_want, size_t size);

/* r->out: captures begin at an offset and are cut off again. */
bool out_add(struct run *r, const char *s, size_t n);
struct val out_cut(struct run *r, size_t from);
/* Scratch text that is freed by bytes_release; each is bounded by what the run may have. */
bool buf_add(struct run *r, struct bytes *t, const char *s, size_t n);
bool buf_addz(struct run *r, struct bytes *t, const char *s);
bool buf_char(struct run *r, struct bytes *t, uint32_t cp);
bool buf_fill(struct run *r, struct bytes *t, uint32_t cp, size_t n);
/* Its bytes as a string of the arena; releases it. */
struct val buf_val(struct run *r, struct bytes *t);

/* ---- tmpl_value.c: making, comparing, iterating ---- */

/* A list under construction. */
struct list {
	struct val *items;
	uint32_t n, n_max;
};

extern const struct val val_none, val_missing;
struct val val_bool(bool b);
struct val val_int(int64_t i);
struct val val_float(double f);
struct val val_bytes(const char *s, size_t n);                 /* borrows */
struct val val_z(const char *s);                               /* borrows */
struct val val_copy(struct run *r, const char *s, size_t n);
struct val val_list(struct run *r, enum val_type type, size_t n, const struct val *items); /* items may be NULL */
struct val val_pair(struct run *r, struct val a, struct val b); /* a tuple */
/* A value of a type that u points to a struct of, which is copied. */
struct val val_own(struct run *r, enum val_type type, const void *what, size_t size);
struct val val_iter(struct run *r, struct val of, const char *name);
/* The items that a filter has worked out so far. Had it to stop at an error of the template's, that error comes when
 * the iterator gets there, as it would from a generator. */
struct val val_generator(struct run *r, const struct list *l);
struct val val_dict(struct run *r);
struct val val_undef(struct run *r, struct val obj, struct val name); /* obj: V_MISSING for a variable */
/* With a message of its own. */
struct val val_undefz(struct run *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Fails, saying what is undefined. */
bool undef_fail(struct run *r, struct val v);
/* Fails: `what` does not work on such a value. */
bool val_refuse(struct run *r, const char *what, struct val v);

bool val_is_str(struct val v, const char *s);
bool val_truth(struct run *r, struct val v);
bool val_is_int(struct val v);    /* bool or int */
int64_t val_whole(struct val v);  /* of one that is */
bool val_is_number(struct val v); /* bool, int or float */
double val_number(struct val v);
bool val_is_sized(struct val v);
int64_t val_len(struct run *r, struct val v); /* fails for what has no length */
const char *val_type_name(struct val v);       /* "int", "str", "NoneType" */
bool val_same(struct run *r, struct val a, struct val b);    /* Python's `is` */
bool val_matches(struct run *r, struct val a, struct val b); /* the same or equal: what finds an item in a list */
bool val_eq(struct run *r, struct val a, struct val b);
/* -1, 0, 1; fails where Python has no order. */
int val_cmp(struct run *r, struct val a, struct val b);
bool val_in(struct run *r, struct val item, struct val container);

bool dict_set(struct run *r, struct dict *d, struct val key, struct val value);
/* V_MISSING when absent; a key that cannot be one fails only when `strict`. */
struct val dict_get(struct run *r, const struct dict *d, struct val key, bool strict);

bool iter_init(struct run *r, struct iter *it, struct val v); /* fails for what cannot be iterated */
bool val_is_iterable(struct val v);
bool iter_next(struct run *r, struct iter *it, struct val *out);
/* All items; a list. */
struct val val_items(struct run *r, struct val v);
bool list_add(struct run *r, struct list *l, struct val v);
struct list *list_reverse(struct list *l); /* gives l */
struct val list_val(struct run *r, const struct list *l, enum val_type type);
/* Stable; keys: [n], sorted by; items follow. */
bool val_sort(struct run *r, struct val *keys, struct val *items, size_t n, bool reverse);

/* ---- tmpl_unicode.c ---- */

uint32_t uni_decode(const char *s, size_t n, uint32_t *cp); /* length; a bad byte is one character */
size_t uni_back(const char *s, size_t at, uint32_t *cp);     /* where the character before `at` begins; at > 0 */
bool uni_is_space(uint32_t cp);
bool uni_is_alpha(uint32_t cp);
bool uni_is_decimal(uint32_t cp);
bool uni_is_digit(uint32_t cp);
bool uni_is_numeric(uint32_t cp);
bool uni_is_printable(uint32_t cp);
bool uni_is_upper(uint32_t cp);
bool uni_is_lower(uint32_t cp);
bool uni_is_cased(uint32_t cp); /* upper, lower or title case */
bool uni_is_word(uint32_t cp); /* \w of a regular expression */
/* 1..3 code points. */
size_t uni_upper(uint32_t cp, uint32_t out[3]);
size_t uni_lower(uint32_t cp, uint32_t out[3]);
size_t uni_title(uint32_t cp, uint32_t out[3]);
size_t uni_fold(uint32_t cp, uint32_t out[3]);
size_t uni_count(const char *s, size_t n); /* characters */
/* Byte offset of character i, at most n. */
size_t uni_offset(const char *s, size_t n, size_t i);

/* ---- tmpl_num.c: numbers from and to text ---- */

/* What writing a float counts for: it takes about as long as so many steps. */
enum { FLOAT_STEPS = 16 };
/* Room for any number as Python shows it, and in any of the formats: 309 digits, the point and 300 more. */
enum { NUM_BYTES = 64, NUM_FORMAT_BYTES = 640 };
/* Python's float(): whitespace around, inf, nan, underscores. False if it is none. */
bool num_float(const char *s, size_t n, double *out);
/* Python's int(s, base); *overflow when it is one that 64 bits do not hold. */
bool num_int(const char *s, size_t n, int base, int64_t *out, bool *overflow);
size_t num_repr(double f, char out[NUM_BYTES]);
/* C's %.{precision}{conv} for conv e, f, g, whatever the locale. precision <= 300. */
size_t num_format(double f, char conv, int precision, bool alternate, char out[NUM_FORMAT_BYTES]);
size_t num_dec(int64_t i, char out[32]);

/* ---- tmpl_text.c: values as text ---- */

bool show_str(struct run *r, struct bytes *t, struct val v);   /* str(v) */
bool show_repr(struct run *r, struct bytes *t, struct val v, bool ascii); /* repr(v), or ascii(v) */
struct val val_str(struct run *r, struct val v);              /* str(v) */
bool show_escaped(struct run *r, struct bytes *t, struct val v); /* for HTML; marked text as it is */
struct val val_escape(struct run *r, struct val v);
bool show_pretty(struct run *r, struct bytes *t, struct val v); /* pprint */

/* ---- tmpl_json.c ---- */

struct json_style {
	bool ascii, sorted, pretty;
	struct val indent; /* one level, a string */
	struct val item_sep, key_sep;
};
bool json_write(struct run *r, struct bytes *t, struct val v, const struct json_style *style);
/* `what` names the text in messages. */
struct val json_read(struct run *r, const char *s, size_t n, const char *what);

/* ---- tmpl_format.c ---- */

struct val format_percent(struct run *r, struct val fmt, struct val args);
struct val format_braces(struct run *r, struct val fmt, const struct args *a, const struct dict *map);
struct val format_time(struct run *r, const struct tm *tm, struct val fmt);
bool time_read(const char *s, struct tm *out); /* 2025-01-02[T03:04:05] */

/* ---- tmpl_ops.c ---- */

struct val op_binary(struct run *r, enum op op, struct val a, struct val b);
bool op_compare(struct run *r, enum op op, struct val a, struct val b);
struct val op_negate(struct run *r, struct val v, bool minus);
struct val op_attr(struct run *r, struct val obj, struct val name);
struct val op_item(struct run *r, struct val obj, struct val key);
/* The attribute of the object alone, no item; V_MISSING if there is none. */
struct val op_own_attr(struct run *r, struct val obj, struct val name);
/* Bounds may be V_NONE. */
struct val op_slice(struct run *r, struct val obj, struct val lo, struct val hi, struct val step);
struct val str_concat(struct run *r, struct val a, struct val b);

/* ---- tmpl_args.c ---- */

/* Arguments by position and name into out[n]; the ones not given are V_MISSING. `names` is a list with spaces between;
 * a ? stands before each that need not be given, and these come last. */
bool args_bind(struct run *r, const char *what, const struct args *a, const char *names, struct val *out);
bool args_none(struct run *r, const char *what, const struct args *a);
/* An argument as a number or text, or the fallback if it is missing. */
int64_t arg_int(struct run *r, struct val v, int64_t fallback);
bool arg_bool(struct run *r, struct val v, bool fallback);
bool arg_str(struct run *r, struct val v, const char *what);

/* What templates call: functions, methods of `self`, filters of `self`. w: the arguments, bound to the names. */
typedef struct val method_fn(struct run *r, struct val self, const struct args *a, const struct val *w);
struct method {
	const char *name;
	method_fn *call;
	const char *params; /* as args_bind has them; NULL: it looks at `a` itself */
};
enum { PARAMS_MAX = 4 };
#define METHOD(fn, self) \
	static struct val fn(struct run *r __attribute__((unused)), struct val self __attribute__((unused)), \
			const struct args *a __attribute__((unused)), const struct val *w __attribute__((unused)))
#define METHOD_IS(fn, result) \
	METHOD(fn, self) { return result; }
#define FILTER(name) METHOD(filter_##name, v)
#define FILTER_IS(name, result) \
	FILTER(name) { return result; }

/* Tables end with a NULL name. */
const struct method *method_find(const struct method *table, const char *name, size_t n); /* NULL: none */
struct val method_call(struct run *r, const struct method *m, struct val self, const struct args *a);
/* The method of that name as a value; V_MISSING if there is none. */
struct val method_of(struct run *r, const struct method *table, struct val self, struct val name);

/* ---- tmpl_str.c, tmpl_method.c ---- */

/* The method of that name as a value; V_MISSING if there is none. */
struct val str_method(struct run *r, struct val self, struct val name);
struct val other_method(struct run *r, struct val self, struct val name);
/* Shared with the filters. */
struct val str_case(struct run *r, struct val s, char how); /* u, l, f (fold), c (capitalize), t (title), s (swap) */
struct val str_strip(struct run *r, struct val s, struct val chars, int sides); /* 1 left, 2 right */
struct val str_replace(struct run *r, struct val s, struct val old, struct val with, int64_t count);
struct val str_split(struct run *r, struct val s, struct val sep, int64_t max, bool from_right);
struct val str_lines(struct run *r, struct val s, bool keep);
struct val str_pad(struct run *r, struct val s, int64_t width, uint32_t fill, char how); /* l, r, c */
struct val str_join(struct run *r, struct val sep, struct val items, bool convert);
/* Nothing that is of the other case, and something of this one. */
bool str_is_case(struct run *r, struct val s, bool (*is)(uint32_t), bool (*other)(uint32_t));

/* ---- tmpl_filter.c, tmpl_filter_seq.c, tmpl_test.c, tmpl_global.c ---- */

extern const struct method text_filters[], seq_filters[];
int32_t filter_find(const char *s, size_t n); /* -1: none */
struct val filter_call(struct run *r, int32_t filter, struct val name, struct val v, const struct args *a);
int32_t test_find(const char *s, size_t n);
bool test_call(struct run *r, int32_t test, struct val name, struct val v, const struct args *a);
/* A global of that name; V_MISSING if there is none. */
struct val global_find(struct run *r, struct val name);

/* ---- tmpl_eval.c, tmpl_exec.c ---- */

struct val tmpl_eval(struct run *r, const struct node *n);
struct val eval_filter(struct run *r, const struct node *n, struct val v); /* the chain below n begins with v */
struct val eval_call(struct run *r, const struct node *n, const struct macro *caller);
struct val call_value(struct run *r, struct val f, const struct args *a);
struct val macro_call(struct run *r, const struct macro *m, const struct args *a);
struct val loop_attr(struct run *r, struct loop *l, struct val name); /* V_MISSING if there is none */
struct val loop_call(struct run *r, struct loop *l, const struct args *a);
bool show_loop(struct run *r, struct bytes *t, struct loop *l);
int64_t loop_length(struct run *r, struct loop *l);
struct scope *scope_open(struct run *r, struct scope *parent); /* NULL after a failure; not entered */
bool scope_set(struct run *r, uint32_t sym, struct val v);
struct val scope_get(struct run *r, uint32_t sym); /* V_MISSING if there is none */
bool tmpl_assign(struct run *r, const struct node *target, struct val v);
bool exec_root(struct run *r, struct node *const *body, size_t n);

/* ---- tmpl_lex.c, tmpl_expr.c, tmpl_parse.c ---- */

enum token_type {
	T_EOF, T_TEXT, T_BLOCK, T_BLOCK_END, T_VAR, T_VAR_END, T_NAME, T_STR, T_INT, T_FLOAT,
	/* in the order of enum op: */
	T_ADD, T_SUB, T_MUL, T_DIV, T_FLOORDIV, T_MOD, T_POW, T_EQ, T_NE, T_LT, T_LE, T_GT, T_GE,
	T_TILDE, T_LBRACKET, T_RBRACKET, T_LPAREN, T_RPAREN, T_LBRACE, T_RBRACE, T_ASSIGN, T_DOT, T_COLON, T_PIPE,
	T_COMMA, T_SEMICOLON
};
struct token {
	enum token_type type;
	uint32_t line;
	struct val v;
};
struct tokens {
	struct token *at; /* [n], the last one is T_EOF */
	uint32_t n, n_max;
};
bool tmpl_lex(struct run *r, const char *source, size_t n, struct tokens *out);

struct parse {
	struct run *r;
	struct tokens tokens;
	size_t at;
	struct dict *syms;
	uint32_t depth;
	uint32_t n_loops;           /* around, within the same function */
	const char *looking_for;    /* the innermost end tag, for messages */
};
struct node *node_new(struct parse *p, enum node_type type, uint32_t line);
/* a, b and c (each may be NULL), then list, then more. */
struct node *node_child(const struct node *n, size_t i);
size_t node_n_children(const struct node *n);
/* Sets the node's height by its children's; NULL after a failure. */
struct node *node_done(struct parse *p, struct node *n);
uint32_t sym_of(struct parse *p, struct val name);
struct token *tok_now(struct parse *p);
struct token *tok_next(struct parse *p); /* steps on, gives the old one */
bool tok_is(struct parse *p, enum token_type type);
bool tok_is_name(struct parse *p, const char *name);
bool tok_skip(struct parse *p, enum token_type type);
bool tok_skip_name(struct parse *p, const char *name);
struct token *tok_expect(struct parse *p, enum token_type type); /* NULL after a failure */
bool parse_fail(struct parse *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
struct nodes {
	struct node **at;
	uint32_t n, n_max;
};
bool nodes_add(struct parse *p, struct nodes *l, struct node *n);

struct node *parse_expression(struct parse *p, bool with_cond);
struct node *parse_tuple(struct parse *p, bool with_cond, const char *end_name);
struct node *parse_target(struct parse *p, bool with_ns, const char *end_name);
struct node *parse_filters(struct parse *p, struct node *on, bool inline_first);
bool parse_template(struct parse *p, struct nodes *out);

#endif
