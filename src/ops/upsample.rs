//! Interpolation: nearest, linear, cubic, for one to three spatial axes, and the gradients.
//!
//! Every mode is a linear map per axis that is known when the program is built ([`AxisMap`]); the gradient is its transpose. Positions are
//! computed in the arithmetic that ATen uses (float32, float64 for double tensors), so that ties round alike.

use super::axis_map::AxisMap;
use super::call::{Call, Outputs};
use super::table::{Layout, OpDef};
use crate::dtype::DType;
use crate::error::{Error, Result, ensure};
use crate::stablehlo::{Func, Value};

pub(super) const OPS: &[OpDef] = &[
    OpDef::new("upsample_nearest1d", |f, call| forward(f, call, Mode::Nearest)).layout(Layout::LikeFirst),
    OpDef::new("upsample_nearest2d", |f, call| forward(f, call, Mode::Nearest)).layout(Layout::LikeFirst),
    OpDef::new("upsample_nearest3d", |f, call| forward(f, call, Mode::Nearest)).layout(Layout::LikeFirst),
    OpDef::new("_upsample_nearest_exact1d", |f, call| {
        forward(f, call, Mode::NearestExact)
    })
    .layout(Layout::LikeFirst),
    OpDef::new("_upsample_nearest_exact2d", |f, call| {
        forward(f, call, Mode::NearestExact)
    })
    .layout(Layout::LikeFirst),
    OpDef::new("_upsample_nearest_exact3d", |f, call| {
        forward(f, call, Mode::NearestExact)
    })
    .layout(Layout::LikeFirst),
    OpDef::new("upsample_linear1d", |f, call| forward(f, call, Mode::Linear)).layout(Layout::LikeFirst),
    OpDef::new("upsample_bilinear2d", |f, call| forward(f, call, Mode::Linear)).layout(Layout::LikeFirst),
    OpDef::new("upsample_trilinear3d", |f, call| forward(f, call, Mode::Linear)).layout(Layout::LikeFirst),
    OpDef::new("upsample_bicubic2d", |f, call| forward(f, call, Mode::Cubic)).layout(Layout::LikeFirst),
    OpDef::new("upsample_nearest1d_backward", |f, call| {
        backward(f, call, Mode::Nearest)
    }),
    OpDef::new("upsample_nearest2d_backward", |f, call| {
        backward(f, call, Mode::Nearest)
    }),
    OpDef::new("upsample_nearest3d_backward", |f, call| {
        backward(f, call, Mode::Nearest)
    }),
    OpDef::new("_upsample_nearest_exact1d_backward", |f, call| {
        backward(f, call, Mode::NearestExact)
    }),
    OpDef::new("_upsample_nearest_exact2d_backward", |f, call| {
        backward(f, call, Mode::NearestExact)
    }),
    OpDef::new("_upsample_nearest_exact3d_backward", |f, call| {
        backward(f, call, Mode::NearestExact)
    }),
    OpDef::new("upsample_linear1d_backward", |f, call| backward(f, call, Mode::Linear)),
    OpDef::new("upsample_bilinear2d_backward", |f, call| {
        backward(f, call, Mode::Linear)
    }),
    OpDef::new("upsample_trilinear3d_backward", |f, call| {
        backward(f, call, Mode::Linear)
    }),
    OpDef::new("upsample_bicubic2d_backward", |f, call| backward(f, call, Mode::Cubic)),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Nearest,
    NearestExact,
    Linear,
    Cubic,
}

/// Keys' cubic convolution parameter that ATen uses.
const CUBIC: f64 = -0.75;

/// One axis: sizes, whether corners are aligned, the given scale factor, whether to compute in float32.
struct Axis {
    input: i64,
    output: i64,
    align_corners: bool,
    scale: Option<f64>,
    single: bool,
}

impl Axis {
    /// Rounded to the arithmetic in use.
    fn round(&self, value: f64) -> f64 {
        if self.single { value as f32 as f64 } else { value }
    }

    /// Input elements per output element (`area_pixel_compute_scale`).
    fn step(&self) -> f64 {
        if self.align_corners {
            return if self.output > 1 {
                self.round((self.input - 1) as f64 / (self.output - 1) as f64)
            } else {
                0.0
            };
        }
        self.round(match self.scale {
            Some(scale) if scale > 0.0 => 1.0 / scale,
            _ => self.input as f64 / self.output as f64,
        })
    }

    /// Where output element `index` lies in the input.
    fn source(&self, index: i64, clamp: bool) -> f64 {
        let step = self.step();
        if self.align_corners {
            return self.round(step * index as f64);
        }
        let position = self.round(self.round(step * self.round(index as f64 + 0.5)) - 0.5);
        if clamp { position.max(0.0) } else { position }
    }

    fn row(&self, index: i64, mode: Mode) -> Vec<(i64, f64)> {
        let last = self.input - 1;
        match mode {
            Mode::Nearest | Mode::NearestExact => {
                let offset = if mode == Mode::NearestExact { 0.5 } else { 0.0 };
                let nearest = Axis {
                    align_corners: false,
                    ..*self
                };
                let position = self.round(self.round(index as f64 + offset) * nearest.step()).floor() as i64;
                vec![(position.clamp(0, last), 1.0)]
            }
            Mode::Linear => {
                let position = self.source(index, true);
                let first = (position.floor() as i64).min(last);
                let weight = self.round((position - first as f64).clamp(0.0, 1.0));
                let second = (first + 1).min(last);
                if second == first {
                    vec![(first, 1.0)]
                } else {
                    vec![(first, self.round(1.0 - weight)), (second, weight)]
                }
            }
            Mode::Cubic => {
                let position = self.source(index, false);
                let first = position.floor();
                let t = position - first;
                let near = |x: f64| ((CUBIC + 2.0) * x - (CUBIC + 3.0)) * x * x + 1.0;
                let far = |x: f64| ((CUBIC * x - 5.0 * CUBIC) * x + 8.0 * CUBIC) * x - 4.0 * CUBIC;
                let weights = [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)];
                let taps = weights
                    .iter()
                    .zip(-1..)
                    .map(|(&weight, tap)| ((first as i64 + tap).clamp(0, last), self.round(weight)));
                taps.collect()
            }
        }
    }

    fn map(&self, mode: Mode) -> AxisMap {
        AxisMap {
            input: self.input,
            rows: (0..self.output).map(|index| self.row(index, mode)).collect(),
        }
    }
}

/// The maps of the spatial axes of `input_dims [N, C, …]`.
fn maps(call: &Call, input_dims: &[i64], dtype: DType, mode: Mode) -> Result<Vec<AxisMap>> {
    let output = call.ints("output_size")?;
    let spatial = input_dims.len().saturating_sub(2);
    ensure(output.len() == spatial && spatial >= 1, || {
        Error::runtime(format!(
            "It is expected output_size equals to {spatial}, but got size {}",
            output.len()
        ))
    })?;
    ensure(
        input_dims[1..].iter().all(|&size| size > 0) && output.iter().all(|&size| size > 0),
        || {
            Error::runtime(format!(
                "Input and output sizes should be greater than 0, but got input {input_dims:?} and output {output:?}"
            ))
        },
    )?;
    let names: &[&str] = match spatial {
        1 => &["scales"],
        2 => &["scales_h", "scales_w"],
        _ => &["scales_d", "scales_h", "scales_w"],
    };
    let align_corners = call.flag("align_corners")?;
    output
        .iter()
        .zip(&input_dims[2..])
        .zip(names)
        .map(|((&output, &input), name)| {
            let axis = Axis {
                input,
                output,
                align_corners,
                scale: call.float_opt(name)?,
                single: dtype != DType::F64,
            };
            Ok(axis.map(mode))
        })
        .collect()
}

/// Copies are made in the dtype itself, sums in float32 at least.
fn computed(f: &mut Func, x: &Value, mode: Mode, gradient: bool) -> Result<Value> {
    let exact = matches!(mode, Mode::Nearest | Mode::NearestExact) && !gradient;
    if exact {
        Ok(x.clone())
    } else {
        f.convert(x, x.dtype().opmath())
    }
}

fn forward(f: &mut Func, call: &Call, mode: Mode) -> Result<Outputs> {
    let x = call.tensor("self")?;
    ensure(x.dtype().is_float() || x.dtype() == DType::U8, || {
        Error::not_implemented(format!("\"upsample\" not implemented for {}", x.dtype()))
    })?;
    let rounded = x.dtype() == DType::U8 && matches!(mode, Mode::Linear | Mode::Cubic);
    let maps = maps(call, x.dims(), x.dtype(), mode)?;
    let mut value = if rounded {
        f.convert(x, DType::F32)?
    } else {
        computed(f, x, mode, false)?
    };
    for (index, map) in maps.iter().enumerate() {
        value = map.apply(f, &value, index + 2)?;
    }
    if rounded {
        value = f.unary(crate::stablehlo::Unary::RoundNearestEven, &value)?;
        let (low, high) = (f.constant(DType::F32, &[], 0i64), f.constant(DType::F32, &[], 255i64));
        value = f.clamp(&low, &value, &high)?;
    }
    Ok(f.convert(&value, x.dtype())?.into())
}

fn backward(f: &mut Func, call: &Call, mode: Mode) -> Result<Outputs> {
    let gradient = call.tensor("grad_output")?;
    let input_dims = call.ints("input_size")?;
    let maps = maps(call, &input_dims, gradient.dtype(), mode)?;
    let mut value = computed(f, gradient, mode, true)?;
    for (index, map) in maps.iter().enumerate() {
        value = map.transposed().apply(f, &value, index + 2)?;
    }
    Ok(f.convert(&value, gradient.dtype())?.into())
}
