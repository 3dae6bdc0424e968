//! The list of runtimes.

use latlab_model::kinds::Runtime;

use super::docker::Docker;
use super::launcher::Launcher;
use super::lxc::Lxc;
use super::nspawn::Nspawn;
use super::oci::Oci;
use super::podman::Podman;

pub(in crate::nodes::container) fn of(runtime: Runtime) -> &'static dyn Launcher {
    match runtime {
        Runtime::Crun | Runtime::Runc => &Oci,
        Runtime::Podman => &Podman,
        Runtime::Docker => &Docker,
        Runtime::Nspawn => &Nspawn,
        Runtime::Lxc => &Lxc,
    }
}
