//! Sources of the MPI programs that latlab has itself, and their way into a node.
//!
//! Each node compiles them by its own `mpicc`: a binary would be one of the host's Open MPI, and a node may have another
//! image. The agent carries them because it is in every node already, and because they are too long for one command to a
//! guest.

use std::fs;
use std::path::Path;

const SOURCES: [(&str, &str); 8] = [
    ("npb.h", include_str!("../mpi/npb.h")),
    ("npb.c", include_str!("../mpi/npb.c")),
    ("npb_ep.c", include_str!("../mpi/npb_ep.c")),
    ("npb_is.c", include_str!("../mpi/npb_is.c")),
    ("npb_cg.c", include_str!("../mpi/npb_cg.c")),
    ("npb_mg.c", include_str!("../mpi/npb_mg.c")),
    ("npb_ft.c", include_str!("../mpi/npb_ft.c")),
    ("micro.c", include_str!("../mpi/micro.c")),
];

/// Writes all of them into a directory.
pub fn write(directory: &str) -> Result<(), String> {
    for (name, text) in SOURCES {
        let path = Path::new(directory).join(name);
        let written = fs::write(&path, text);
        written.map_err(|error| format!("write {}: {error}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_is_carried() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("mpi");
        let mut files: Vec<String> = fs::read_dir(directory)
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        let mut carried = SOURCES.map(|(name, _)| name);
        carried.sort_unstable();
        assert_eq!(carried.as_slice(), files);
    }
}
