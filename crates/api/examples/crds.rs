//! Writes the CustomResourceDefinitions into the directory given as the only argument.
//! Run through `cargo xtask crds`.

use std::path::Path;

use pko_api::crd;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args_os().nth(1).ok_or("usage: crds DIRECTORY")?;
    let directory = Path::new(&directory);
    std::fs::create_dir_all(directory)?;
    for definition in crd::all() {
        let (name, content) = crd::file(&definition);
        std::fs::write(directory.join(name), content)?;
    }
    Ok(())
}
