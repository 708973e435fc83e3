# Declarations of the public headers for other languages: reads cohort.h, cohort_engine.h and cohort_tools.h, writes what
# `to` names.
#
#	awk -v to=python -f tools/bindings.awk include/cohort.h include/cohort_engine.h include/cohort_tools.h
#
# to=python   bindings/python/cohort/_abi.py     classes and prototypes of ctypes
# to=node     bindings/node/abi.js               structs and prototypes of koffi
# to=rust     bindings/rust/cohort-sys/src/abi.rs
# to=layout   a C program that prints every constant, and of every struct the size, and of its fields offset and size,
#             as the compiler sees them; the tests of the bindings compare their own with these.
# `tools/bindings.sh` writes the first three; `tools/bindings.sh --check` tells whether they are up to date.
#
# What holds:
#  1. Every enum value, number macro, struct and COHORT_API function is written, or the run fails: a statement that is
#     not understood ends it with status 1.
#  2. The header's order is kept, so that a struct within a struct comes first.
#
# Headers are the house's own style: no bit-fields, no unions, one level of unnamed struct.

BEGIN {
	SUBSEP = "\034"
	n_const = n_struct = n_func = n_opaque = 0
}

# ---- Reading: comments, the preprocessor and C++ go; the rest is one string ----

/^#ifdef __cplusplus/ { skipping = 1 }
skipping { if ($0 ~ /^#endif/) skipping = 0; next }
{
	line = $0
	clean = ""
	while (1) {
		if (in_comment) {
			at = index(line, "*/")
			if (!at) { line = ""; break }
			line = substr(line, at + 2)
			in_comment = 0
		}
		at = index(line, "/*")
		if (!at) break
		clean = clean substr(line, 1, at - 1) " "
		line = substr(line, at + 2)
		in_comment = 1
	}
	line = clean line
	# What has a value is a number, but for COHORT_API and texts.
	if (line ~ /^#define COHORT_[A-Z0-9_]+[ \t]+[^ \t"]/ && line !~ /^#define COHORT_API /) {
		split(line, word, " ")
		sub(/^#define [A-Z0-9_]+[ \t]+/, "", line)
		gsub(/[()]/, "", line)
		constant(word[2], number(line))
		next
	}
	if (line !~ /^[ \t]*#/) src = src line "\n"
}

function trim(s) { gsub(/[ \t\n]+/, " ", s); sub(/^ /, "", s); sub(/ $/, "", s); return s }
function fail(why) { print "bindings.awk: " why > "/dev/stderr"; failed = 1; exit 1 }
function constant(name, value) { const_name[++n_const] = name; value_of[name] = value }

# number(TEXT): a value, the name of one, or the sum of both.
function number(s,    part, n, i, sum) {
	n = split(s, part, /\+/)
	for (i = 1; i <= n; i++) {
		part[i] = trim(part[i])
		if (part[i] in value_of) sum += value_of[part[i]]
		else if (part[i] ~ /^-?[0-9]+$/) sum += part[i]
		else fail("no number: " s)
	}
	return sum
}

# cut(S, SEPARATOR, OUT): the parts of S between separators that are outside all brackets; how many.
function cut(s, separator, out,    i, c, depth, n, from) {
	n = 0
	from = 1
	for (i = 1; i <= length(s); i++) {
		c = substr(s, i, 1)
		if (c ~ /[({[]/) depth++
		else if (c ~ /[)}\]]/) depth--
		else if (c == separator && !depth) {
			out[++n] = trim(substr(s, from, i - from))
			from = i + 1
		}
	}
	if (trim(substr(s, from)) != "") out[++n] = trim(substr(s, from))
	return n
}

# A declaration becomes d_name, d_type and d_array (0: none). Types are "const int32_t*", "struct x**", or of a function
# "fn RETURNED(T,T)".
function declaration(s,    stars, params, ret, n, part, i, list, array) {
	s = trim(s)
	if (match(s, /\(\*[a-z_]+\) ?\(/)) {
		ret = trim(substr(s, 1, RSTART - 1))
		array = substr(s, RSTART, RLENGTH)
		params = substr(s, RSTART + RLENGTH)
		sub(/\)$/, "", params)
		list = type_list(params)
		gsub(/[(*) ]/, "", array)
		d_name = array
		d_type = "fn " plain(ret) "(" list ")"
		d_array = 0
		return
	}
	d_array = 0
	if (match(s, /\[[^]]+\]$/)) {
		d_array = number(substr(s, RSTART + 1, RLENGTH - 2))
		s = trim(substr(s, 1, RSTART - 1))
	}
	if (!match(s, /[A-Za-z_][A-Za-z0-9_]*$/)) fail("no name: " s)
	d_name = substr(s, RSTART)
	d_type = plain(substr(s, 1, RSTART - 1))
}
function plain(t) {
	t = trim(t)
	gsub(/\* ?const/, "*", t)
	gsub(/ *\*/, "*", t)
	sub(/^enum [a-z_]+/, "enum", t)
	sub(/^const enum [a-z_]+/, "const enum", t)
	return t
}
# Types of a list of parameters, with commas between; names go to p_name.
function type_list(s,    part, n, i, list) {
	if (trim(s) == "void") { n_param = 0; return "" }
	n = cut(s, ",", part)
	for (i = 1; i <= n; i++) {
		declaration(part[i])
		p_name[i] = d_name
		if (d_array) d_type = d_type "*" # an array is passed as a pointer
		list = list (i > 1 ? "," : "") d_type
	}
	n_param = n
	return list
}

function enum_values(body,    part, n, i, next_value, at) {
	n = cut(body, ",", part)
	for (i = 1; i <= n; i++) {
		at = index(part[i], "=")
		if (at) {
			next_value = number(trim(substr(part[i], at + 1)))
			part[i] = trim(substr(part[i], 1, at - 1))
		}
		constant(part[i], next_value++)
	}
}

function add_field(s, name, type, array) {
	n_field[s]++
	field_name[s, n_field[s]] = name
	field_type[s, n_field[s]] = type
	field_array[s, n_field[s]] = array
}
function struct_body(name, body,    part, n, i, m, j, piece, base, inner, last) {
	n = cut(body, ";", part)
	for (i = 1; i <= n; i++) {
		if (part[i] ~ /^struct ?\{/) {
			match(part[i], /[a-z_]+$/)
			last = substr(part[i], RSTART)
			inner = substr(part[i], index(part[i], "{") + 1)
			sub(/\} ?[a-z_]+$/, "", inner)
			struct_body(name "_" last, inner)
			add_field(name, last, "struct " name "_" last, 0)
			unnamed[name "_" last] = name "." last
			continue
		}
		m = cut(part[i], ",", piece)
		declaration(piece[1])
		add_field(name, d_name, d_type, d_array)
		base = d_type
		sub(/\*+$/, "", base)
		for (j = 2; j <= m; j++) {
			declaration(base " " piece[j])
			add_field(name, d_name, d_type, d_array)
		}
	}
	struct_name[++n_struct] = name
	is_struct[name] = 1
}

function statement(s,    name, body) {
	if (s == "") return
	if (s ~ /^enum [a-z_]* ?\{/ || s ~ /^enum ?\{/) {
		body = substr(s, index(s, "{") + 1)
		sub(/\}$/, "", body)
		enum_values(body)
	} else if (s ~ /^struct [a-z_]+ ?\{/) {
		name = substr(s, 8)
		body = substr(name, index(name, "{") + 1)
		sub(/ ?\{.*/, "", name)
		sub(/\}$/, "", body)
		struct_body(name, body)
	} else if (s ~ /^struct [a-z_]+$/) {
		opaque_name[++n_opaque] = substr(s, 8)
	} else if (s ~ /^typedef int32_t [a-z_]+$/) {
		alias[substr(s, 17)] = "int32_t"
	} else if (s == "typedef void cohort_take(void *user, int32_t item, const float *logits)") {
		take = "fn void(void*,int32_t,const float*)"
	} else if (s ~ /^typedef const struct cohort_strategy \*cohort_strategy_export_fn\(/) {
		# what a shared object exports; no binding writes one
	} else if (s ~ /^COHORT_API /) {
		s = substr(s, 12)
		body = substr(s, index(s, "(") + 1)
		sub(/\)$/, "", body)
		declaration(substr(s, 1, index(s, "(") - 1))
		func_name[++n_func] = d_name
		func_ret[n_func] = d_type
		func_params[n_func] = type_list(body)
		func_n[n_func] = n_param
		for (i_param = 1; i_param <= n_param; i_param++) func_param[n_func, i_param] = p_name[i_param]
	} else
		fail("not understood: " s)
}

# Statements end at a semicolon outside braces, an inline function at its last brace.
function read_all(    i, c, depth, from, inline_fn) {
	from = 1
	for (i = 1; i <= length(src); i++) {
		c = substr(src, i, 1)
		if (c == "{") {
			if (!depth++) inline_fn = trim(substr(src, from, i - from)) ~ /^static inline/
		} else if (c == "}") {
			if (!--depth && inline_fn) { from = i + 1; inline_fn = 0 }
		} else if (c == ";" && !depth) {
			statement(trim(substr(src, from, i - from)))
			from = i + 1
		}
	}
	if (trim(substr(src, from)) != "") fail("left over: " trim(substr(src, from)))
}

# Types without names for scalars: cohort_token is int32_t.
function scalar(t) { return t in alias ? alias[t] : t }
# Splits "const struct x**" into t_const, t_base and t_stars.
function take_apart(t) {
	t_const = sub(/^const /, "", t)
	t_stars = match(t, /\*+$/) ? RLENGTH : 0
	t_base = scalar(substr(t, 1, length(t) - t_stars))
	if (t_base == "cohort_take") t_stars = 0
}
# Splits "fn R(A,B)" into f_ret and f_params.
function fn_apart(t) {
	t = substr(t, 4)
	f_ret = substr(t, 1, index(t, "(") - 1)
	f_params = substr(t, index(t, "(") + 1)
	sub(/\)$/, "", f_params)
}
function is_text(t) { return t == "const char*" }

# ---- Python ----

function py_scalar(t) {
	if (t == "bool" || t == "float" || t == "double" || t == "size_t") return "c_" t
	if (t == "char") return "c_char"
	if (t == "unsigned") return "c_uint"
	if (t == "enum") return "c_int"
	if (t ~ /^u?int(8|32|64)_t$/) { sub(/_t$/, "", t); return "c_" t }
	if (t ~ /^struct /) return substr(t, 8)
	fail("no type of ctypes: " t)
}
# where: "field" (a string of a field has a length beside it, or none: never read up to a NUL unasked) or "param".
function py(t, where,    s, i, n, part, list) {
	if (t ~ /^fn /) {
		fn_apart(t)
		list = py_ret(f_ret)
		n = cut(f_params, ",", part)
		for (i = 1; i <= n; i++) list = list ", " py(part[i], "field")
		return "CFUNCTYPE(" list ")"
	}
	if (is_text(t)) return where == "param" ? "c_char_p" : "POINTER(c_char)"
	take_apart(t)
	if (t_base == "cohort_take") return py(take, "field")
	if (t_base == "void" || (t_base == "char" && t_stars == 1) ||
			(t_base ~ /^struct / && !(substr(t_base, 8) in is_struct))) {
		s = "c_void_p"
		t_stars--
	} else if (t_base == "char" && t_stars > 1) {
		s = "c_char_p"
		t_stars--
	} else
		s = py_scalar(t_base)
	for (i = 0; i < t_stars; i++) s = "POINTER(" s ")"
	return s
}
function py_ret(t) { return t == "void" ? "None" : py(t, "param") }
function python(    i, j, s, list, n, part) {
	print "\"\"\"The declarations of cohort.h, cohort_engine.h and cohort_tools.h for ctypes, written by tools/bindings.sh."
	print ""
	print "STRUCTS and FUNCTIONS list all of them; cohort._lib binds the functions to the library.\"\"\""
	print ""
	print "# ruff: noqa"
	print "from ctypes import (CFUNCTYPE, POINTER, Structure, c_bool, c_char, c_char_p, c_double, c_float, c_int,"
	print "                    c_int32, c_int64, c_size_t, c_uint, c_uint8, c_uint32, c_uint64, c_void_p)"
	print ""
	print "VERSION = (" value_of["COHORT_VERSION_MAJOR"] ", " value_of["COHORT_VERSION_MINOR"] ", " \
		value_of["COHORT_VERSION_PATCH"] ")"
	print ""
	for (i = 1; i <= n_const; i++) print const_name[i] " = " value_of[const_name[i]]
	for (i = 1; i <= n_struct; i++) print "\nclass " struct_name[i] "(Structure): ..."
	print "\n"
	for (i = 1; i <= n_struct; i++) {
		s = struct_name[i]
		print s "._fields_ = ["
		for (j = 1; j <= n_field[s]; j++)
			print "    (\"" field_name[s, j] "\", " py(field_type[s, j], "field") \
			(field_array[s, j] ? " * " field_array[s, j] : "") "),"
		print "]"
	}
	print "\nSTRUCTS = ("
	for (i = 1; i <= n_struct; i++) print "    " struct_name[i] ","
	print ")\n\n# name: (what it returns, its parameters)\nFUNCTIONS = {"
	for (i = 1; i <= n_func; i++) {
		list = ""
		n = cut(func_params[i], ",", part)
		for (j = 1; j <= n; j++) list = list py(part[j], "param") ", "
		sub(/, $/, n == 1 ? "," : "", list)
		print "    \"" func_name[i] "\": (" py_ret(func_ret[i]) ", (" list ")),"
	}
	print "}"
}

# ---- Node ----

function js_scalar(t) {
	if (t == "unsigned") return "unsigned int"
	if (t == "enum") return "int"
	if (t ~ /^struct /) return substr(t, 8)
	return t
}
function js(t) {
	if (t ~ /^fn / || t ~ /\*$/) return "void *"
	return js_scalar(scalar(t))
}
function node(    i, j, s, list, n, part) {
	print "// The declarations of cohort.h, cohort_engine.h and cohort_tools.h for koffi, written by tools/bindings.sh."
	print "// Pointers are all 'void *': what they point to is taken apart by index.js."
	print "'use strict';\n"
	print "exports.version = [" value_of["COHORT_VERSION_MAJOR"] ", " value_of["COHORT_VERSION_MINOR"] ", " \
		value_of["COHORT_VERSION_PATCH"] "];\n"
	print "exports.constants = {"
	for (i = 1; i <= n_const; i++) print "\t" const_name[i] ": " value_of[const_name[i]] ","
	print "};\n\n// [name, {field: type, or [type, count]}]\nexports.structs = ["
	for (i = 1; i <= n_struct; i++) {
		s = struct_name[i]
		print "\t['" s "', {"
		for (j = 1; j <= n_field[s]; j++) {
			list = "'" js(field_type[s, j]) "'"
			if (field_array[s, j]) list = "[" list ", " field_array[s, j] "]"
			print "\t\t" field_name[s, j] ": " list ","
		}
		print "\t}],"
	}
	print "];\n\n// name: [what it returns, [its parameters]]\nexports.functions = {"
	for (i = 1; i <= n_func; i++) {
		list = ""
		n = cut(func_params[i], ",", part)
		for (j = 1; j <= n; j++) list = list (j > 1 ? ", " : "") "'" js(part[j]) "'"
		print "\t" func_name[i] ": ['" js(func_ret[i]) "', [" list "]],"
	}
	print "};"
}

# ---- Rust ----

function rs_scalar(t) {
	if (t == "bool") return t
	if (t == "float") return "f32"
	if (t == "double") return "f64"
	if (t == "size_t") return "usize"
	if (t == "char") return "c_char"
	if (t == "void") return "c_void"
	if (t == "unsigned") return "c_uint"
	if (t == "enum") return "c_int"
	if (t ~ /^uint/) { sub(/^uint/, "u", t); sub(/_t$/, "", t); return t }
	if (t ~ /^int/) { sub(/^int/, "i", t); sub(/_t$/, "", t); return t }
	if (t ~ /^struct /) return substr(t, 8)
	fail("no type of Rust: " t)
}
function rs(t,    s, i, n, part, list, is_const) {
	if (t ~ /^fn /) {
		fn_apart(t)
		n = cut(f_params, ",", part)
		s = f_ret
		for (i = 1; i <= n; i++) list = list (i > 1 ? ", " : "") rs(part[i])
		return "Option<unsafe extern \"C\" fn(" list ")" (s == "void" ? "" : " -> " rs(s)) ">"
	}
	take_apart(t)
	is_const = t_const
	n = t_stars
	if (t_base == "cohort_take") return rs(take)
	s = rs_scalar(t_base)
	for (i = 0; i < n; i++) s = (is_const && (i == 0 || t_base == "char") ? "*const " : "*mut ") s
	return s
}
function rs_name(s) { return s ~ /^(self|type|in|ref|move|box|final|where)$/ ? s "_" : s }
function rust(    i, j, s, list, n, part) {
	print "// The declarations of cohort.h, cohort_engine.h and cohort_tools.h. Written by tools/bindings.sh from the headers.\n"
	print "use std::os::raw::{c_char, c_int, c_uint, c_void};\n"
	for (i = 1; i <= n_const; i++) {
		s = value_of[const_name[i]]
		print "pub const " const_name[i] ": i32 = " s ";"
	}
	for (i = 1; i <= n_opaque; i++)
		print "\n#[repr(C)]\npub struct " opaque_name[i] " { _opaque: [u8; 0] }"
	for (i = 1; i <= n_struct; i++) {
		s = struct_name[i]
		print "\n#[repr(C)]\n#[derive(Clone, Copy)]\npub struct " s " {"
		for (j = 1; j <= n_field[s]; j++) {
			list = rs(field_type[s, j])
			if (field_array[s, j]) list = "[" list "; " field_array[s, j] "]"
			print "    pub " rs_name(field_name[s, j]) ": " list ","
		}
		print "}"
	}
	print "\nextern \"C\" {"
	for (i = 1; i <= n_func; i++) {
		list = ""
		n = cut(func_params[i], ",", part)
		for (j = 1; j <= n; j++)
			list = list (j > 1 ? ", " : "") rs_name(func_param[i, j]) ": " rs(part[j])
		print "    pub fn " func_name[i] "(" list ")" \
			(func_ret[i] == "void" ? "" : " -> " rs(func_ret[i])) ";"
	}
	print "}\n"
	print "/// Sizes, offsets and constants as this crate has them, as the layout program of the tests writes them."
	print "pub fn layout() -> String {"
	print "    use std::mem::{size_of, MaybeUninit};"
	print "    fn size_of_field<S, T>(_: fn(*const S) -> *const T) -> usize {\n        size_of::<T>()\n    }"
	print "    let mut out = String::new();"
	print "    macro_rules! constant {\n        ($name:ident) => {"
	print "            out.push_str(&format!(\"const {} {}\\n\", stringify!($name), $name))\n        };\n    }"
	print "    macro_rules! layout {\n        ($name:ident, $($field:ident),*) => {{"
	print "            let place = MaybeUninit::<$name>::uninit();"
	print "            let base = place.as_ptr();"
	print "            out.push_str(&format!(\"struct {} {}\\n\", stringify!($name), size_of::<$name>()));"
	print "            $("
	print "                // SAFETY: only the address of the field is taken, within the struct."
	print "                let at = unsafe { std::ptr::addr_of!((*base).$field) } as usize - base as usize;"
	print "                let size = size_of_field(|s: *const $name| unsafe { std::ptr::addr_of!((*s).$field) });"
	print "                let (name, field) = (stringify!($name), stringify!($field).trim_end_matches('_'));"
	print "                out.push_str(&format!(\"field {}.{} {} {}\\n\", name, field, at, size));"
	print "            )*\n        }};\n    }"
	for (i = 1; i <= n_const; i++) print "    constant!(" const_name[i] ");"
	for (i = 1; i <= n_struct; i++) {
		s = struct_name[i]
		list = ""
		for (j = 1; j <= n_field[s]; j++) list = list ", " rs_name(field_name[s, j])
		print "    layout!(" s list ");"
	}
	print "    out\n}"
}

# ---- What the C compiler says ----

function layout(    i, j, s, of) {
	print "#include <cohort_engine.h>\n#include <cohort_tools.h>\n#include <stdio.h>\n\nint main(void)\n{"
	for (i = 1; i <= n_const; i++)
		print "\tprintf(\"const " const_name[i] " %lld\\n\", (long long)(" const_name[i] "));"
	for (i = 1; i <= n_struct; i++) {
		s = struct_name[i]
		of = s in unnamed ? unnamed[s] : ""
		if (of == "")
			print "\tprintf(\"struct " s " %zu\\n\", sizeof(struct " s "));"
		else
			print "\tprintf(\"struct " s " %zu\\n\", sizeof ((struct " substr(of, 1, index(of, ".") - 1) \
				" *)0)->" substr(of, index(of, ".") + 1) ");"
		for (j = 1; j <= n_field[s]; j++) c_field(s, field_name[s, j], of)
	}
	print "\treturn 0;\n}"
}
function c_field(s, f, of,    outer, path) {
	outer = of == "" ? s : substr(of, 1, index(of, ".") - 1)
	path = of == "" ? f : substr(of, index(of, ".") + 1) "." f
	print "\tprintf(\"field " s "." f " %zu %zu\\n\", offsetof(struct " outer ", " path ")" \
		(of == "" ? "" : " - offsetof(struct " outer ", " substr(of, index(of, ".") + 1) ")") \
		", sizeof ((struct " outer " *)0)->" path ");"
}

END {
	if (failed) exit 1
	read_all()
	if (to == "python") python()
	else if (to == "node") node()
	else if (to == "rust") rust()
	else if (to == "layout") layout()
	else fail("to: python, node, rust or layout")
}
