//! The functions for Python, which app/kafka/fast_path/in_rust.py and tables/places.py call.

mod builder;
mod delivered;
mod known;
mod packed;
mod records;
mod requests;
mod rows;

use pyo3::prelude::*;

#[pymodule(gil_used = true)]
mod punctual_kernel {
    use pyo3::prelude::*;

    /// The version of the functions and their arguments: change it together with `API` in tables/native_extension.py.
    #[pymodule_export]
    const API: u32 = 5;

    #[pymodule_export]
    use super::{
        builder::Builder, delivered::delivered, packed::Packed, records::Record, records::unpack, requests::Rules,
        requests::requests, rows::dues, rows::places, rows::route,
    };

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
