/* The looks of the HTML page: light and dark by the reader's choice, one column on a phone. */
#ifndef PROG_EXPORT_STYLE_H
#define PROG_EXPORT_STYLE_H

/* In pieces, as compilers need not take long strings. */
static const char *const export_style[] = {
		":root{color-scheme:light dark;--page:#f6f5f1;--card:#fff;--ink:#1f2328;--soft:#656d76;--line:#e2e0d8;"
		"--accent:#0b62a8;--heat:11,98,168;--rare:214,120,20;--mark:#8a3ffc;--given:#6f7680}\n"
		"@media(prefers-color-scheme:dark){:root{--page:#14161a;--card:#1d2026;--ink:#e4e6ea;--soft:#9aa1ab;"
		"--line:#2e333b;--accent:#6cb2f2;--heat:108,178,242;--rare:235,150,50;--mark:#c79bff;--given:#9199a5}}\n"
		"*{box-sizing:border-box}\n"
		"body{margin:0;background:var(--page);color:var(--ink);font:16px/1.6 system-ui,-apple-system,\"Segoe UI\","
		"Roboto,\"Noto Sans\",sans-serif}\n"
		"main,header,footer{max-width:82rem;margin:0 auto;padding:0 1.25rem}\n"
		"header{padding-top:2rem}\n"
		"h1{font-size:1.5rem;line-height:1.25;margin:0;letter-spacing:-.01em}\n"
		"h2{font-size:.8rem;font-weight:600;text-transform:uppercase;letter-spacing:.08em;color:var(--soft);"
		"margin:2.25rem 0 .6rem}\n"
		"h3{font-size:.95rem;margin:0;display:flex;gap:.5rem;align-items:center;flex-wrap:wrap}\n"
		".sub,footer{color:var(--soft);font-size:.875rem}\n"
		".sub{margin:.3rem 0 0;overflow-wrap:anywhere}\n"
		".warn{border:1px solid rgb(var(--rare));background:rgba(var(--rare),.12);border-radius:.5rem;"
		"padding:.5rem .9rem;margin:1rem 0 0}\n"
		".text{white-space:pre-wrap;overflow-wrap:anywhere;unicode-bidi:isolate;margin:0}\n"
		".lead{font-size:1.2rem;line-height:1.6;padding:.2rem 0 .2rem 1rem;border-left:3px solid var(--line)}\n"
		".given{color:var(--given)}\n"
		".note{color:var(--soft);font-size:.875rem;margin:.5rem 0 1rem}\n"
		".cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,19rem),1fr));gap:1rem;"
		"align-items:start;margin-top:1rem}\n"
		".card{background:var(--card);border:1px solid var(--line);border-top:4px solid var(--group,var(--line));"
		"border-radius:.6rem;padding:.8rem 1rem 1rem;min-width:0;box-shadow:0 1px 2px rgba(0,0,0,.05)}\n"
		".best{outline:2px solid var(--accent);outline-offset:-1px}\n"
		".badge{font-size:.7rem;font-weight:600;padding:.05rem .5rem;border-radius:1rem;background:var(--accent);"
		"color:var(--card)}\n"
		".way{color:var(--soft);font-size:.8rem;margin:.1rem 0 .6rem}\n"
		".none{color:var(--soft);font-style:italic}\n"
		"mark{background:none;color:inherit;font-weight:700;border-bottom:2px solid var(--mark)}\n",
		".k{border-radius:.15rem;box-decoration-break:clone;-webkit-box-decoration-break:clone}\n"
		".k:hover{outline:1px solid var(--soft)}\n"
		".k1{background:rgba(var(--rare),.08)}.k2{background:rgba(var(--rare),.15)}"
		".k3{background:rgba(var(--rare),.24)}.k4{background:rgba(var(--rare),.34)}"
		".k5{background:rgba(var(--rare),.48)}\n"
		".nums{display:grid;grid-template-columns:repeat(4,auto);justify-content:space-between;gap:.1rem .9rem;"
		"margin:.8rem 0 0;padding-top:.6rem;border-top:1px solid var(--line);font-variant-numeric:tabular-nums}\n"
		".nums div{min-width:0}\n"
		"dt{color:var(--soft);font-size:.72rem}dd{margin:0;font-size:.9rem;overflow-wrap:anywhere}\n"
		".more{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,24rem),1fr));gap:0 2.5rem}\n"
		".forks{list-style:none;margin:0;padding:0;font-size:.9rem}\n"
		".forks li{padding:.3rem 0;border-bottom:1px solid var(--line);margin-left:calc(var(--level)*1.1rem);"
		"overflow-wrap:anywhere}\n"
		".forks b{font-weight:600}.forks .at{color:var(--soft);margin-right:.6rem}\n"
		".way-out{display:inline-block;margin-right:1rem}\n"
		".scroll{overflow-x:auto}\n"
		".heat{border-collapse:separate;border-spacing:2px;font-size:.8rem;font-variant-numeric:tabular-nums}\n"
		".heat th{font-weight:500;color:var(--soft);padding:.1rem .4rem;text-align:right}\n"
		".heat td{width:2.6rem;height:1.9rem;text-align:center;border-radius:.25rem;"
		"background:rgba(var(--heat),calc(var(--s)*.0065))}\n"
		".heat .self{background:none;color:var(--soft)}\n"
		".facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,15rem),1fr));gap:0 2rem}\n"
		".facts h3{margin:1rem 0 .3rem}\n"
		".facts table{width:100%;border-collapse:collapse;font-size:.85rem}\n"
		".facts td{border-top:1px solid var(--line);padding:.15rem 0;vertical-align:top;overflow-wrap:anywhere}\n"
		".facts td+td{text-align:right;padding-left:1rem;font-variant-numeric:tabular-nums}\n"
		"summary{cursor:pointer;color:var(--accent);font-size:.9rem;margin-top:2rem}\n"
		"footer{padding-top:1.5rem;padding-bottom:2.5rem}\n"
		".key{display:inline-block;padding:0 .45rem;margin:0 .1rem}\n"
		"@media print{body{background:none}.card{break-inside:avoid}}\n"};

/* Of branches that leave the shared beginning: told apart in both schemes, and by most eyes. */
static const char *const export_groups[] = {
		"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#8a63d2", "#7f7f7f"};

#endif
