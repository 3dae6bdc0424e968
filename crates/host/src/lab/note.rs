//! A file that says what was begun with a node. It is there before the node is touched and until all is done, so a
//! latlab that is killed leaves it, and with it all that [`Lab::resume`](super::deployed::Lab::resume) has to know.

use std::fs;
use std::path::{Path, PathBuf};

use latlab_model::snapshot::SavedAs;
use serde::{Deserialize, Serialize};

use super::deployed::Lab;
use super::error::Error;
use crate::nodes::mend::Act;
use crate::sys;
use crate::sys::file::{self, write_atomically};

/// Work that was begun with a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Begun {
    pub act: Act,
    /// The node on whose hosts it will be, and the number of its moves then. Only of a move.
    #[serde(default)]
    pub to: String,
    #[serde(default)]
    pub moves: u32,
    /// The directory of a snapshot.
    #[serde(default)]
    pub directory: PathBuf,
    /// The node of which it becomes a copy, when it is restored from the snapshot of another one.
    #[serde(default)]
    pub copied: Option<SavedAs>,
}

impl Begun {
    pub(super) fn with_snapshot(act: Act, directory: &Path) -> Begun {
        Begun {
            act,
            to: String::new(),
            moves: 0,
            directory: directory.to_owned(),
            copied: None,
        }
    }

    pub(super) fn what(&self) -> &'static str {
        match self.act {
            Act::Move => "move",
            Act::Save => "snapshot",
            Act::Restore => "restore",
        }
    }
}

/// The file of work that is being done. It goes with this value.
pub(super) struct Note {
    path: PathBuf,
    stays: bool,
}

impl Note {
    /// Leaves the file for a `resume`, because of this error.
    pub(super) fn stays(&mut self, error: Error) -> Error {
        self.stays = true;
        error
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        if !self.stays {
            // One that stays costs a `resume`.
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Lab {
    /// Notes work before it begins.
    pub(super) fn begin(&self, node: &str, begun: &Begun) -> Result<Note, Error> {
        let path = self.begun_path(node);
        let directory = path.parent().unwrap_or(Path::new("/"));
        let failed = sys::Error::of("create", directory.display());
        fs::create_dir_all(directory).map_err(failed)?;
        let text = serde_json::to_vec(begun).expect("words and numbers");
        write_atomically(&path, &text, 0o600)?;
        Ok(Note { path, stays: false })
    }

    /// The work that was begun with a node and is not done.
    pub(super) fn begun(&self, node: &str) -> Result<Option<Begun>, Error> {
        let path = self.begun_path(node);
        Ok(file::read_json(&path).map_err(sys::Error::of("read", path.display()))?)
    }

    pub(super) fn forget_begun(&self, node: &str) {
        // One that stays costs another `resume`.
        let _ = fs::remove_file(self.begun_path(node));
    }

    /// No node has a name that begins so.
    fn begun_path(&self, node: &str) -> PathBuf {
        self.dirs
            .paused(&self.state.lab)
            .join(format!(".begun-{node}"))
    }

    /// Refuses a node of which work was cut off: what goes on of it at one place may run at the other.
    pub(super) fn check_whole(&self, node: &str) -> Result<(), Error> {
        if self.begun(node)?.is_none() {
            return Ok(());
        }
        // Another latlab may be about it yet.
        let _shared = self.share()?;
        self.look_again()?;
        self.check_nothing_begun(node)
    }

    /// As [`check_whole`](Self::check_whole), with the lab claimed.
    pub(super) fn check_nothing_begun(&self, node: &str) -> Result<(), Error> {
        match self.begun(node)? {
            Some(begun) => Err(self.cut_off(node, &begun)),
            None => Ok(()),
        }
    }

    pub(super) fn cut_off(&self, node: &str, begun: &Begun) -> Error {
        Error::CutOff {
            lab: self.state.lab.clone(),
            node: node.to_owned(),
            what: begun.what(),
        }
    }
}
