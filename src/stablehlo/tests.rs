//! The builder: texts, inference against brute force, and every kind of operation through the plugins' compilers.

use super::*;
use crate::dtype::DType;
use crate::error::Result;
use crate::pjrt::{Buffer, Client, ClientOption, PORTABLE_OPTIONS, Plugin};
use crate::shape::{Dims, numel};
use proptest::prelude::*;
use smallvec::SmallVec;
use std::path::Path;
use std::sync::Arc;

/// A client of each CPU plugin in the checkout's virtual environment; a missing one is a failure.
fn clients() -> Vec<Arc<Client>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(".venv/lib");
    let python = std::fs::read_dir(&root)
        .unwrap()
        .flatten()
        .next()
        .expect("a Python in .venv")
        .path();
    [
        "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so",
        "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so",
    ]
    .iter()
    .map(|relative| {
        let plugin = Plugin::load(&python.join("site-packages").join(relative)).unwrap();
        Client::new(&plugin, &[("cpu_device_count", ClientOption::Int(1))]).unwrap()
    })
    .collect()
}

fn ty(dtype: DType, dims: &[i64]) -> TensorType {
    TensorType::new(dtype, dims)
}

fn finish(f: Func, results: &[Value]) -> Module {
    f.finish(results).unwrap()
}

/// Runs a program of float32 arguments and one float32 result on every plugin; all must agree.
fn run(module: &Module, arguments: &[(&[i64], &[f32])]) -> Vec<f32> {
    let mut answers: Vec<Vec<f32>> = Vec::new();
    for client in clients() {
        let executable = client
            .compile(&module.text, PORTABLE_OPTIONS)
            .unwrap_or_else(|error| panic!("{error}\n{}", module.text));
        let device = &client.devices()[0];
        let buffers: Vec<Arc<Buffer>> = arguments
            .iter()
            .map(|(dims, values)| {
                let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
                Arc::new(Buffer::from_host(device, &bytes, DType::F32, dims).unwrap())
            })
            .collect();
        let mut outputs = SmallVec::new();
        executable.execute(&buffers, device, &[], false, &mut outputs).unwrap();
        let mut bytes = vec![0; 4 * numel(&module.results[0].dims) as usize];
        outputs[0].read_into(&mut bytes).unwrap();
        answers.push(
            bytes
                .chunks(4)
                .map(|chunk| f32::from_ne_bytes(chunk.try_into().unwrap()))
                .collect(),
        );
    }
    assert_eq!(answers[0], answers[1], "the plugins disagree");
    answers.swap_remove(0)
}

#[test]
fn a_program_is_printed_in_generic_form_without_what_nobody_needs() {
    let mut f = Func::default();
    let x = f.param(ty(DType::F32, &[2, 3]));
    let unused = f.param(ty(DType::F32, &[7]));
    let _ = f.neg(&unused).unwrap();
    let doubled = f.binary_const(Binary::Multiply, &x, 2i64).unwrap();
    let sum = f.reduce(&doubled, Monoid::Add, &[1]).unwrap();
    f.alias(0, 1).unwrap();
    let module = finish(f, &[sum, doubled]);
    assert_eq!(module.params, vec![0]);
    insta::assert_snapshot!(module.text);
}

#[test]
fn equal_constants_are_one_statement_and_regions_have_their_own() {
    let mut f = Func::default();
    let x = f.param(ty(DType::I32, &[4]));
    let (a, b) = (f.full_like(&x, 1i64), f.full_like(&x, 1i64));
    assert_eq!(a.id, b.id);
    let sorted = f
        .sort(std::slice::from_ref(&x), 0, true, |f, left, right| {
            let one = f.constant(DType::I32, &[], 1i64);
            let shifted = f.add(&left[0], &one)?;
            f.compare(Comparison::Le, &shifted, &right[0])
        })
        .unwrap();
    let module = finish(f, &sorted);
    insta::assert_snapshot!(module.text);
}

#[test]
fn operands_that_do_not_fit_are_named() {
    let mut f = Func::default();
    let (x, y) = (f.param(ty(DType::F32, &[2])), f.param(ty(DType::F32, &[3])));
    let error = f.add(&x, &y).unwrap_err();
    assert!(
        error.message.contains("tensor<2xf32>") && error.message.contains("tensor<3xf32>"),
        "{error}"
    );

    let integer = f.convert(&x, DType::I32).unwrap();
    assert!(f.unary(Unary::Floor, &integer).unwrap_err().message.contains("int32"));
    assert!(
        f.transpose(&x, &[0, 1]).is_err() && f.slice(&x, &[1], &[3], &[1]).is_err() && f.reshape(&x, &[3]).is_err()
    );
}

type Build = fn(&mut Func, &Value) -> Result<Vec<Value>>;

/// One entry per kind of operation, on a float32 `[4, 4]`.
const PROGRAMS: &[(&str, Build)] = &[
    ("arithmetic", |f, x| {
        let y = f.binary(Binary::Atan2, x, x)?;
        let z = f.binary(Binary::Power, x, &y)?;
        let floor = f.unary(Unary::Floor, &z)?;
        let clamped = f.clamp(&x.clone(), &floor, &x.clone())?;
        let finite = f.is_finite(&clamped)?;
        Ok(vec![f.select(&finite, &clamped, x)?])
    }),
    ("chlo", |f, x| {
        let ops = [
            Unary::Erf,
            Unary::Erfc,
            Unary::ErfInv,
            Unary::Lgamma,
            Unary::Digamma,
            Unary::Asin,
            Unary::Acosh,
            Unary::Sinh,
            Unary::Tan,
        ];
        ops.iter().map(|&op| f.unary(op, x)).collect()
    }),
    ("conversions", |f, x| {
        let mut results = Vec::new();
        for &dtype in DType::ALL {
            let there = f.convert(x, dtype)?;
            results.push(f.convert(&there, DType::F32)?);
        }
        Ok(results)
    }),
    ("bits", |f, x| {
        let halves = f.bitcast(x, DType::U16)?;
        let whole = f.bitcast(&halves, DType::I32)?;
        let shifted = f.binary_const(Binary::ShiftRightLogical, &whole, 3i64)?;
        Ok(vec![f.unary(Unary::PopulationCount, &shifted)?])
    }),
    ("movement", |f, x| {
        let zero = f.constant(DType::F32, &[], 0i64);
        let padded = f.pad(x, &zero, &[1, -1], &[0, 2], &[1, 0])?;
        let sliced = f.slice(&padded, &[0, 1], &[8, 5], &[2, 1])?;
        let turned = f.transpose(&sliced, &[1, 0])?;
        let flipped = f.reverse(&turned, &[0])?;
        Ok(vec![f.concatenate(&[flipped, x.clone()], 1)?])
    }),
    ("dynamic", |f, x| {
        let start = f.constant(DType::I32, &[], 1i64);
        let part = f.dynamic_slice(x, &[start.clone(), start.clone()], &[2, 2])?;
        Ok(vec![f.dynamic_update_slice(x, &part, &[start.clone(), start])?])
    }),
    ("reductions", |f, x| {
        let mut results = Vec::new();
        for monoid in [Monoid::Add, Monoid::Multiply, Monoid::Maximum, Monoid::Minimum] {
            results.push(f.reduce_keep(x, monoid, &[0])?);
        }
        let window = Window {
            size: vec![2, 2],
            stride: vec![1, 2],
            base_dilation: vec![1, 1],
            dilation: vec![1, 1],
            padding: vec![(1, 0), (0, 0)],
        };
        results.push(f.reduce_window(x, Monoid::Add, &window)?);
        let window = Window {
            stride: vec![2, 2],
            padding: vec![(0, 0); 2],
            ..window
        };
        let pooled = f.reduce_window(x, Monoid::Maximum, &window)?;
        results.push(f.select_and_scatter(x, &pooled, &window)?);
        Ok(results)
    }),
    ("indexing", |f, x| {
        let rows = f.constant_ints(DType::I64, &[3, 0, 3]);
        let taken = f.take(x, &rows, 0)?;
        let vectors = f.unsqueeze(&rows, &[1])?;
        let dims = ScatterDims {
            update_window_dims: vec![1],
            inserted_window_dims: vec![0],
            scatter_dims_to_operand_dims: vec![0],
            index_vector_dim: 1,
            ..ScatterDims::default()
        };
        f.scatter(
            std::slice::from_ref(x),
            &vectors,
            &[taken],
            &dims,
            false,
            false,
            |f, current, update| Ok(vec![f.add(&current[0], &update[0])?]),
        )
    }),
    ("sorting", |f, x| {
        let positions = f.iota(DType::I32, &[4, 4], 1)?;
        let mut results = f.sort(&[x.clone(), positions], 1, true, |f, left, right| {
            f.compare(Comparison::Lt, &left[0], &right[0])
        })?;
        results.push(f.top_k(x, 2)?.0);
        Ok(results)
    }),
    ("products", |f, x| {
        let product = f.matmul(x, x, DType::F32)?;
        let narrow = f.convert(x, DType::BF16)?;
        f.set_widen(true);
        let wide = f.matmul(&narrow, &narrow, DType::F32)?;
        let spd = f.matmul(x, x, DType::F32)?;
        let factor = f.cholesky(&spd, true)?;
        let solved = f.triangular_solve(&factor, x, true, true, false, "TRANSPOSE")?;
        let spectrum = f.fft(x, "RFFT", &[4])?;
        Ok(vec![product, wide, solved, f.fft(&spectrum, "IRFFT", &[4])?])
    }),
    ("convolution", |f, x| {
        let image = f.reshape(x, &[1, 1, 4, 4])?;
        let kernel = f.constant(DType::F32, &[2, 1, 2, 2], 0.5f64);
        let config = Convolution {
            stride: vec![1, 2],
            padding: vec![(1, 1), (0, 1)],
            left_dilation: vec![2, 1],
            right_dilation: vec![1, 1],
            reverse: vec![true, false],
            input_batch: 0,
            input_feature: 1,
            input_spatial: vec![2, 3],
            kernel_input_feature: 1,
            kernel_output_feature: 0,
            kernel_spatial: vec![2, 3],
            output_batch: 0,
            output_feature: 1,
            output_spatial: vec![2, 3],
            feature_groups: 1,
            batch_groups: 1,
        };
        Ok(vec![f.convolution(&image, &kernel, &config, DType::F32)?])
    }),
    ("control", |f, x| {
        let count = f.constant(DType::I32, &[], 0i64);
        let looped = f.while_loop(
            &[count, x.clone()],
            |f, carried| f.compare_const(Comparison::Lt, &carried[0], 3i64),
            |f, carried| {
                Ok(vec![
                    f.binary_const(Binary::Add, &carried[0], 1i64)?,
                    f.add(&carried[1], &carried[1])?,
                ])
            },
        )?;
        let positive = f.compare_const(Comparison::Gt, &looped[0], 2i64)?;
        f.if_else(
            &positive,
            |f| Ok(vec![f.constant(DType::F32, &[4], 1i64)]),
            |f| Ok(vec![f.constant(DType::F32, &[4], 2i64)]),
        )
    }),
    ("random", |f, _| {
        let state = f.constant_ints(DType::U64, &[1, 2]);
        Ok(vec![
            f.random_bits(&state, DType::U32, &[3, 5])?,
            f.random_bits(&state, DType::U64, &[2])?,
        ])
    }),
    ("complex", |f, x| {
        let z = f.complex(x, x)?;
        let product = f.mul(&z, &z)?;
        Ok(vec![f.unary(Unary::Abs, &product)?, f.imag(&product)?])
    }),
];

#[test]
fn every_kind_of_operation_compiles_on_every_plugin() {
    for client in clients() {
        for (name, build) in PROGRAMS {
            let mut f = Func::default();
            let x = f.param(ty(DType::F32, &[4, 4]));
            let results = build(&mut f, &x).unwrap_or_else(|error| panic!("{name}: {error}"));
            let module = finish(f, &results);
            let compiled = client.compile(&module.text, PORTABLE_OPTIONS);
            assert!(compiled.is_ok(), "{name}: {}\n{}", compiled.unwrap_err(), module.text);
        }
    }
}

#[test]
fn values_are_right() {
    let mut f = Func::default();
    let x = f.param(ty(DType::F32, &[2, 3]));
    let y = f.param(ty(DType::F32, &[3]));
    let y = f.broadcast_to(&y, &[2, 3]).unwrap();
    let sum = f.add(&x, &y).unwrap();
    let row = f.reduce(&sum, Monoid::Maximum, &[0]).unwrap();
    let module = finish(f, &[row]);
    assert_eq!(
        run(
            &module,
            &[(&[2, 3], &[1.0, 5.0, 3.0, 4.0, 2.0, 6.0]), (&[3], &[10.0, 20.0, 30.0])]
        ),
        vec![14.0, 25.0, 36.0]
    );
}

fn small_dims() -> impl Strategy<Value = Vec<i64>> {
    prop::collection::vec(0i64..5, 1..4)
}

proptest! {
    #[test]
    fn broadcasting_agrees_with_each_pair_of_sizes(left in small_dims(), right in small_dims()) {
        let rank = left.len().max(right.len());
        let at = |dims: &[i64], axis: usize| (axis + dims.len()).checked_sub(rank).map_or(1, |own| dims[own]);
        let fits = (0..rank).all(|axis| { let (a, b) = (at(&left, axis), at(&right, axis)); a == b || a == 1 || b == 1 });
        let result = crate::shape::broadcast(&left, &right);
        prop_assert_eq!(result.is_ok(), fits);
        if let Ok(dims) = result {
            for (axis, &dim) in dims.iter().enumerate() {
                let (a, b) = (at(&left, axis), at(&right, axis));
                prop_assert_eq!(dim, if a == 1 { b } else { a });
            }
        }
    }

    #[test]
    fn a_slice_has_as_many_elements_as_its_positions(size in 0i64..12, start in 0i64..12, limit in 0i64..12, step in 1i64..4) {
        let result = infer::shape::slice(&ty(DType::F32, &[size]), &[start], &[limit], &[step]);
        if start <= limit && limit <= size {
            let count = (start..limit).step_by(step as usize).count() as i64;
            prop_assert_eq!(result.unwrap().dims, Dims::from_slice(&[count]));
        } else {
            prop_assert!(result.is_err());
        }
    }

    #[test]
    fn padding_counts_edges_and_gaps(size in 0i64..6, low in -3i64..4, high in -3i64..4, interior in 0i64..3) {
        let inside = if size == 0 { 0 } else { size + (size - 1) * interior };
        let result = infer::shape::pad(&ty(DType::F32, &[size]), &ty(DType::F32, &[]), &[low], &[high], &[interior]);
        prop_assert_eq!(result.ok().map(|ty| ty.dims[0]), (low + inside + high >= 0).then_some(low + inside + high));
    }

    #[test]
    fn a_window_stands_where_it_fits(size in 1i64..9, window in 1i64..4, stride in 1i64..4, dilation in 1i64..3, low in 0i64..3, high in 0i64..3) {
        let shape = Window { size: vec![window], stride: vec![stride], base_dilation: vec![1], dilation: vec![dilation], padding: vec![(low, high)] };
        let x = ty(DType::F32, &[size]);
        let found = infer::reduce::reduce_window(&[&x], &[&ty(DType::F32, &[])], &shape).unwrap()[0].dims[0];
        let (padded, extent) = (size + low + high, (window - 1) * dilation + 1);
        let count = (0..padded).step_by(stride as usize).filter(|start| start + extent <= padded).count() as i64;
        prop_assert_eq!(found, count);
    }

    #[test]
    fn a_product_keeps_batch_and_free_axes(batch in 0i64..4, m in 0i64..4, k in 0i64..4, n in 0i64..4, other in 0i64..4) {
        let dims = DotDims { left_batch: vec![0], right_batch: vec![0], left_contract: vec![2], right_contract: vec![1] };
        let left = ty(DType::F32, &[batch, m, k]);
        let right = infer::contract::dot_general(&left, &ty(DType::F32, &[batch, k, n]), &dims, DType::F32).unwrap();
        prop_assert_eq!(right.dims, Dims::from_slice(&[batch, m, n]));
        let wrong = infer::contract::dot_general(&left, &ty(DType::F32, &[batch, other, n]), &dims, DType::F32);
        prop_assert_eq!(wrong.is_ok(), other == k);
    }
}
