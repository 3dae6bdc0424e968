//! Compiles the recorders' programs in the kernel.

fn main() {
    latlab_bpf::compile("tap", "tap", &[]);
    // For kernels without type information.
    latlab_bpf::compile("tap", "tap-without-types", &["-DWITHOUT_TYPES"]);
    latlab_bpf::compile("recorder", "recorder", &[]);
    latlab_bpf::compile("steal", "steal", &[]);
    latlab_bpf::compile("stacks", "stacks", &[]);
}
