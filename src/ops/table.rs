//! What an entry says, and the table put together from the families.

use super::call::{Call, Outputs};
use crate::error::Result;
use crate::stablehlo::Func;
use rustc_hash::FxHashMap;
use std::sync::OnceLock;

pub type Lowering = fn(&mut Func, &Call) -> Result<Outputs>;

/// Strides of the functional results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Layout {
    #[default]
    Contiguous,
    /// As PyTorch's TensorIterator: operands that agree on a non-contiguous dense order pass it on.
    Elementwise,
    /// The memory format of the argument of this position in the schema, when it is channels-last; else contiguous.
    LikeFirst,
}

/// One ATen base name (`add` stands for `aten::add.Tensor`, `aten::add_.Scalar`, `aten::add.out`, `aten::_foreach_add.List`, …).
///
/// The lowering is the functional form; in-place, `out=` and foreach forms are derived from the schema. Arguments of schema type
/// `Scalar` and `Scalar[]` are *operands* (their value may change without a recompile) unless listed in `attributes`; every other
/// non-tensor argument is an *attribute* (part of the key) unless listed in `operands`.
#[derive(Debug)]
pub struct OpDef {
    pub base: &'static str,
    pub lower: Lowering,
    pub attributes: &'static [&'static str],
    pub operands: &'static [&'static str],
    /// For schemas that write several arguments or write without saying so: the names of the written arguments. The lowering returns the
    /// functional results first, then one entry for each of these (`None` = unchanged; lists are flattened).
    pub writes: &'static [&'static str],
    pub layout: Layout,
    /// The last result is a 0-d int64 count: the other results are cut to that many elements of axis 0 after a host read.
    pub bounded: bool,
    /// Uses `float32_matmul_precision`.
    pub precision: bool,
    /// Takes the generator's state (`call.random_bits`).
    pub random: bool,
    /// Overloads (by overload name) that the entry leaves to PyTorch.
    pub except: &'static [&'static str],
}

impl OpDef {
    pub const fn new(base: &'static str, lower: Lowering) -> Self {
        Self {
            base,
            lower,
            attributes: &[],
            operands: &[],
            writes: &[],
            layout: Layout::Contiguous,
            bounded: false,
            precision: false,
            random: false,
            except: &[],
        }
    }

    /// A pointwise operator: the result's strides follow the operands'.
    pub const fn elementwise(base: &'static str, lower: Lowering) -> Self {
        let mut def = Self::new(base, lower);
        def.layout = Layout::Elementwise;
        def
    }

    pub const fn attributes(mut self, names: &'static [&'static str]) -> Self {
        self.attributes = names;
        self
    }

    pub const fn operands(mut self, names: &'static [&'static str]) -> Self {
        self.operands = names;
        self
    }

    pub const fn writes(mut self, names: &'static [&'static str]) -> Self {
        self.writes = names;
        self
    }

    pub const fn layout(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self
    }

    pub const fn bounded(mut self) -> Self {
        self.bounded = true;
        self
    }

    pub const fn precision(mut self) -> Self {
        self.precision = true;
        self
    }

    pub const fn random(mut self) -> Self {
        self.random = true;
        self
    }

    pub const fn except(mut self, overloads: &'static [&'static str]) -> Self {
        self.except = overloads;
        self
    }
}

/// Every family's entries.
const FAMILIES: &[&[OpDef]] = &[
    super::activation::OPS,
    super::amp::OPS,
    super::attention::OPS,
    super::attention_fused::OPS,
    super::compare::OPS,
    super::complex::OPS,
    super::conv::OPS,
    super::decomposition::OPS,
    super::determinant::OPS,
    super::distance::OPS,
    super::embedding::OPS,
    super::extremum::OPS,
    super::factory::OPS,
    super::indexing::OPS,
    super::internal::OPS,
    super::layout::OPS,
    super::linalg::OPS,
    super::loss::OPS,
    super::lu::OPS,
    super::moments::OPS,
    super::norm::OPS,
    super::optimizer::OPS,
    super::pad::OPS,
    super::pointwise::OPS,
    super::pool_adaptive::OPS,
    super::pool_avg::OPS,
    super::pool_indexed::OPS,
    super::pool_max::OPS,
    super::qr::OPS,
    super::random::OPS,
    super::recurrent::OPS,
    super::reduction::OPS,
    super::scan::OPS,
    super::search::OPS,
    super::selection::OPS,
    super::scatter::OPS,
    super::softmax::OPS,
    super::sort::OPS,
    super::unary::OPS,
    super::upsample::OPS,
    super::vector_norm::OPS,
];

/// The entry of a base name without `aten::`.
pub fn find(base: &str) -> Option<&'static OpDef> {
    static BY_NAME: OnceLock<FxHashMap<&'static str, &'static OpDef>> = OnceLock::new();
    BY_NAME
        .get_or_init(|| all().map(|def| (def.base, def)).collect())
        .get(base)
        .copied()
}

pub fn all() -> impl Iterator<Item = &'static OpDef> {
    FAMILIES.iter().flat_map(|family| family.iter())
}
