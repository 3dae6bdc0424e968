//! Images: the root directory a container or virtual machine starts from.
//!
//! A node's `image` is one of five things, and all five end as a directory that is only ever
//! read ([`RootView`]); the writable layer on top belongs to the node.
//!
//! - `host`, the default: the machine's own root. The same programs run natively, in the container
//!   and in the virtual machine, and a first run downloads nothing.
//! - `empty`: nothing but mount points. latlab's agent is enough for measurements.
//! - a directory.
//! - an archive of an OCI image, as `skopeo copy docker://... oci-archive:FILE` and
//!   `podman save --format oci-archive` write it, or what `docker save` writes. It is unpacked once
//!   into a cache, under the digest of its manifest.
//! - a description of packages and files, in a file (`.yaml`) or in the lab, from which `mmdebstrap` makes an image once.
//!
//! Archives come from elsewhere, so every byte that enters the cache has been compared with the
//! digest that names it, every path of a layer is resolved inside the image's root, and nothing is
//! read or written beyond a budget.

mod archive;
mod bootstrap;
mod budget;
mod cache;
mod codec;
mod config;
mod covers;
mod disk;
mod error;
pub mod fuzz;
mod host;
mod image;
mod layer;
mod made;
mod manifest;
mod own_kernel;
pub(crate) mod squashfs;
mod view;

pub use cache::Cache;
pub use config::ImageConfig;
pub use covers::Covers;
pub use disk::Disks;
pub use error::Error;
pub use host::Search;
pub use image::{Image, open, prepare};
pub use made::{Described, Made, Wish};
pub use own_kernel::ImageKernel;
pub use view::RootView;
