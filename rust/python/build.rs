//! On macOS an extension is linked without Python, whose symbols are there when it is loaded.

fn main() {
    pyo3_build_config::add_extension_module_link_args();
}
