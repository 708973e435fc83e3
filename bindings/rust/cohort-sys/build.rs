//! Finds libcohort: in COHORT_LIB_DIR, or by pkg-config.

use std::env;
use std::process::Command;

fn main() {
    for name in ["COHORT_LIB_DIR", "PKG_CONFIG", "PKG_CONFIG_PATH", "PKG_CONFIG_LIBDIR", "PKG_CONFIG_SYSROOT_DIR"] {
        println!("cargo:rerun-if-env-changed={}", name);
    }
    if let Some(dir) = env::var_os("COHORT_LIB_DIR") {
        // Cargo runs this in the crate's directory, and the linker elsewhere: a relative one is shown for what it is.
        let dir = env::current_dir().unwrap().join(dir);
        if !dir.join("libcohort.so").exists() {
            panic!("there is no libcohort.so in COHORT_LIB_DIR ({})", dir.display());
        }
        println!("cargo:rustc-link-search=native={}", dir.to_str().expect("COHORT_LIB_DIR is not UTF-8"));
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
