//! What Python sees.

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

    /// What Python calls, and with what: changed together with `API` in tables/compiled.py.
    #[pymodule_export]
    const API: u32 = 4;

    #[pymodule_export]
    use super::builder::Builder;
    #[pymodule_export]
    use super::delivered::delivered;
    #[pymodule_export]
    use super::packed::Packed;
    #[pymodule_export]
    use super::records::{Record, unpack};
    #[pymodule_export]
    use super::requests::{Rules, requests};
    #[pymodule_export]
    use super::rows::{dues, places, route};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
