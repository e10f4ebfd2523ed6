//! Tells which engine this is, see `engine` in `src/lib.rs`. The crate `airtcp-identity` says what
//! counts.

use std::path::{Path, PathBuf};
use std::{env, io};

fn main() -> io::Result<()> {
    // Asked for at run time: `env!` would keep the folder of the first build in a copied checkout.
    let package = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).ok_or(io::ErrorKind::NotFound)?;
    let (hash, watched) = airtcp_identity::engine(&package.join("../.."))?;
    for path in watched {
        // Relative to the package, so that a copied checkout watches its own files.
        println!("cargo::rerun-if-changed={}", Path::new("../..").join(path).display());
    }
    println!("cargo::rustc-env=AIRTCP_ENGINE_HASH={hash}");
    Ok(())
}
