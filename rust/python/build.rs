//! On macOS an extension is linked without Python. The symbols of Python exist when the extension is loaded.

fn main() {
    pyo3_build_config::add_extension_module_link_args();
}
