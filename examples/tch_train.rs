#![allow(clippy::print_stdout)] // a program with output
//! A linear model trained on the device from Rust: `cargo run --release --no-default-features --features tch --example tch_train`.
//!
//! y = 3 x₀ − 2 x₁ + 0.5 with noise; plain gradient descent on tch tensors that live on the device.

use std::path::PathBuf;
use tch::{Kind, Tensor};
use torch_tpu::frontend::{self, DeviceTensor};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let packages = std::env::var("TORCH_TPU_PACKAGES")
        .map(PathBuf::from)
        .unwrap_or_else(|_| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(".venv/lib/python3.11/site-packages"));
    frontend::initialize(&[packages])?;
    tch::manual_seed(0);

    let inputs = Tensor::randn([256, 2], (Kind::Float, tch::Device::Cpu));
    let truth = Tensor::from_slice(&[3.0f32, -2.0]).view([2, 1]);
    let noise = Tensor::randn([256, 1], (Kind::Float, tch::Device::Cpu)) * 0.01;
    let targets: Tensor = inputs.matmul(&truth) + 0.5 + noise;
    let (inputs, targets) = (inputs.to_accelerator(0)?, targets.to_accelerator(0)?);

    let mut weight = Tensor::zeros([2, 1], (Kind::Float, tch::Device::Cpu))
        .to_accelerator(0)?
        .set_requires_grad(true);
    let mut bias = Tensor::zeros([1], (Kind::Float, tch::Device::Cpu))
        .to_accelerator(0)?
        .set_requires_grad(true);
    for step in 0..=100 {
        let loss = (inputs.matmul(&weight) + &bias - &targets).square().mean(Kind::Float);
        loss.backward();
        if step % 25 == 0 {
            println!("step {step:3}: loss {:.6}", loss.to_host()?.double_value(&[]));
        }
        tch::no_grad(|| {
            for parameter in [&mut weight, &mut bias] {
                let update = parameter.grad() * 0.1;
                let _ = parameter.g_sub_(&update);
                parameter.zero_grad();
            }
        });
    }
    let (weight, bias) = (weight.to_host()?, bias.to_host()?);
    let found = [
        weight.double_value(&[0, 0]),
        weight.double_value(&[1, 0]),
        bias.double_value(&[0]),
    ];
    println!("found {found:.3?}, expected [3.0, -2.0, 0.5]");
    let close = found
        .iter()
        .zip([3.0, -2.0, 0.5])
        .all(|(found, expected)| (found - expected).abs() < 0.01);
    if close {
        Ok(())
    } else {
        Err("the model did not converge".into())
    }
}
