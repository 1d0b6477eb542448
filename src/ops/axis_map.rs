//! Linear maps along one axis that are known when the program is built: interpolation, adaptive averaging, and their transposes.
//!
//! A row lists the elements that one result is made of, and their weights. Rows are written as takes with constant indices, not as a
//! product with a matrix: an infinity must reach only the results that it is part of, and XLA:CPU fuses the takes into one loop (2 to 5
//! times quicker than `dot_general`). Accelerators, on which takes are slow, get the matrix product.

use super::spatial::{self, Target};
use crate::dtype::DType;
use crate::error::Result;
use crate::stablehlo::{DotDims, Func, Monoid, Value};

/// `result[o] = Σ weight·x[index]` over row `o`.
#[derive(Clone, Debug)]
pub struct AxisMap {
    pub input: i64,
    pub rows: Vec<Vec<(i64, f64)>>,
}

/// Row length up to which the takes are written out one by one.
const WRITTEN_OUT: usize = 16;

impl AxisMap {
    pub fn transposed(&self) -> Self {
        let mut rows = vec![Vec::new(); self.input as usize];
        for (output, row) in self.rows.iter().enumerate() {
            for &(index, weight) in row {
                if let Some(list) = rows.get_mut(index as usize) {
                    list.push((output as i64, weight));
                }
            }
        }
        Self {
            input: self.rows.len() as i64,
            rows,
        }
    }

    fn weighted(&self) -> bool {
        self.rows.iter().flatten().any(|&(_, weight)| weight != 1.0)
    }

    /// `x` with `axis` replaced by the rows. Adds up in `x`'s dtype.
    pub fn apply(&self, f: &mut Func, x: &Value, axis: usize) -> Result<Value> {
        let mut dims = x.dims().to_vec();
        dims[axis] = self.rows.len() as i64;
        let longest = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        if longest == 0 || x.numel() == 0 {
            return Ok(f.constant(x.dtype(), &dims, 0i64));
        }
        if longest > 1 && x.dtype().is_float() && spatial::target() == Target::Accelerator {
            return self.product(f, x, axis);
        }
        if longest > WRITTEN_OUT {
            return self.take_all(f, x, axis, longest);
        }
        let zeros = f.constant(x.dtype(), &dims, 0i64);
        let mut total: Option<Value> = None;
        for position in 0..longest {
            let entries: Vec<Option<(i64, f64)>> = self.rows.iter().map(|row| row.get(position).copied()).collect();
            let indices = filled(&entries);
            let mut value = take(f, x, axis, &indices)?;
            if self.weighted() {
                let weights: Vec<f64> = entries
                    .iter()
                    .map(|entry| entry.map_or(0.0, |(_, weight)| weight))
                    .collect();
                let weights = spatial::floats_along(f, x.dtype(), &weights, &dims, axis)?;
                value = f.mul(&value, &weights)?;
            }
            if entries.iter().any(Option::is_none) {
                let present: Vec<bool> = entries.iter().map(Option::is_some).collect();
                let present = spatial::mask_along(f, &present, &dims, axis)?;
                value = f.select(&present, &value, &zeros)?;
            }
            total = Some(match total {
                None => value,
                Some(before) => f.add(&before, &value)?,
            });
        }
        Ok(total.unwrap_or(zeros))
    }

    /// Long rows: all elements side by side, then a reduction.
    fn take_all(&self, f: &mut Func, x: &Value, axis: usize, longest: usize) -> Result<Value> {
        let entries: Vec<Option<(i64, f64)>> = self
            .rows
            .iter()
            .flat_map(|row| (0..longest).map(|position| row.get(position).copied()))
            .collect();
        let indices: Vec<i64> = entries
            .iter()
            .map(|entry| entry.map_or(0, |(index, _)| index))
            .collect();
        let mut value = take(f, x, axis, &indices)?;
        let dims = value.dims().to_vec();
        if self.weighted() {
            let weights: Vec<f64> = entries
                .iter()
                .map(|entry| entry.map_or(0.0, |(_, weight)| weight))
                .collect();
            let weights = spatial::floats_along(f, x.dtype(), &weights, &dims, axis)?;
            value = f.mul(&value, &weights)?;
        }
        if entries.iter().any(Option::is_none) {
            let present: Vec<bool> = entries.iter().map(Option::is_some).collect();
            let present = spatial::mask_along(f, &present, &dims, axis)?;
            let zeros = f.full_like(&value, 0i64);
            value = f.select(&present, &value, &zeros)?;
        }
        let mut split = dims;
        split[axis] = self.rows.len() as i64;
        split.insert(axis + 1, longest as i64);
        let value = f.reshape(&value, &split)?;
        f.reduce(&value, Monoid::Add, &[axis + 1])
    }

    fn product(&self, f: &mut Func, x: &Value, axis: usize) -> Result<Value> {
        let (rows, columns) = (self.rows.len() as i64, self.input);
        let mut matrix = vec![0.0; (rows * columns) as usize];
        for (row, entries) in self.rows.iter().enumerate() {
            for &(index, weight) in entries {
                matrix[row * columns as usize + index as usize] += weight;
            }
        }
        let matrix = f.constant_floats(x.dtype(), &matrix);
        let matrix = f.reshape(&matrix, &[rows, columns])?;
        let dims = DotDims {
            left_contract: vec![axis],
            right_contract: vec![1],
            ..DotDims::default()
        };
        let result = f.dot_general(x, &matrix, &dims, x.dtype())?;
        // The rows came last.
        let mut order: Vec<usize> = (0..x.rank() - 1).collect();
        order.insert(axis, x.rank() - 1);
        f.transpose(&result, &order)
    }
}

/// The indices, with a neighbour's where a row has no entry: runs stay runs, and `take` can see them.
fn filled(entries: &[Option<(i64, f64)>]) -> Vec<i64> {
    let mut last = entries.iter().flatten().map(|(index, _)| *index).next().unwrap_or(0);
    entries
        .iter()
        .map(|entry| {
            last = entry.map_or(last, |(index, _)| index);
            last
        })
        .collect()
}

/// `x` with elements `indices` of `axis`, in that order. Slices and repetitions where the indices allow it.
pub fn take(f: &mut Func, x: &Value, axis: usize, indices: &[i64]) -> Result<Value> {
    let step = match indices {
        [first, second, ..] => second - first,
        _ => 1,
    };
    let count = indices.len() as i64;
    let Some((&first, &last)) = indices.first().zip(indices.last()) else {
        return f.slice_axis(x, axis, 0, 0);
    };
    if step > 0 && indices.windows(2).all(|pair| pair[1] - pair[0] == step) {
        if first == 0 && step == 1 && count == x.dim(axis) {
            return Ok(x.clone());
        }
        let (mut start, mut limit, mut stride) = (vec![0; x.rank()], x.dims().to_vec(), vec![1; x.rank()]);
        (start[axis], limit[axis], stride[axis]) = (first, last + 1, step);
        return f.slice(x, &start, &limit, &stride);
    }
    // Every element of a run, the same number of times.
    let repeats = indices.iter().take_while(|&&index| index == first).count() as i64;
    if repeats > 1
        && count % repeats == 0
        && indices
            .iter()
            .enumerate()
            .all(|(place, &index)| index == first + place as i64 / repeats)
    {
        let run = f.slice_axis(x, axis, first, last + 1)?;
        let mut dims = run.dims().to_vec();
        dims.insert(axis + 1, repeats);
        let axes: Vec<usize> = (0..dims.len()).filter(|&other| other != axis + 1).collect();
        let repeated = f.broadcast_in_dim(&run, &dims, &axes)?;
        dims.remove(axis + 1);
        dims[axis] = count;
        return f.reshape(&repeated, &dims);
    }
    let indices = f.constant_ints(DType::I32, indices);
    f.take(x, &indices, axis)
}
