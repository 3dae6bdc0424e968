//! Compiles the kernel path's program.

fn main() {
    latlab_bpf::compile("kernel", "kernel", &[]);
}
