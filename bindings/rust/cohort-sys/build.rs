//! Finds libcohort: in COHORT_LIB_DIR, or by pkg-config.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=COHORT_LIB_DIR");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    if let Some(dir) = env::var_os("COHORT_LIB_DIR") {
        let dir = dir.into_string().expect("COHORT_LIB_DIR is not UTF-8");
        if !Path::new(&dir).join("libcohort.so").exists() {
            panic!("there is no libcohort.so in COHORT_LIB_DIR ({})", dir);
        }
        println!("cargo:rustc-link-search=native={}", dir);
        println!("cargo:rustc-link-lib=dylib=cohort");
        return;
    }
    let version = env::var("CARGO_PKG_VERSION").unwrap();
    let minor = version.rsplit_once('.').unwrap().0;
    let said = Command::new(env::var_os("PKG_CONFIG").unwrap_or_else(|| "pkg-config".into()))
        .args(["--libs", "--print-errors", &format!("cohort >= {}", minor)])
        .output();
    let (ok, libs, why) = match said {
        Ok(o) => (
            o.status.success(),
            String::from_utf8_lossy(&o.stdout).into_owned(),
            String::from_utf8_lossy(&o.stderr).into_owned(),
        ),
        Err(e) => (false, String::new(), format!("pkg-config: {}", e)),
    };
    if !ok {
        panic!("libcohort was not found. Install it, or set COHORT_LIB_DIR to the directory of libcohort.so. {}", why);
    }
    for word in libs.split_whitespace() {
        if let Some(dir) = word.strip_prefix("-L") {
            println!("cargo:rustc-link-search=native={}", dir);
        } else if let Some(name) = word.strip_prefix("-l") {
            println!("cargo:rustc-link-lib=dylib={}", name);
        }
    }
}
