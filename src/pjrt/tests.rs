//! The layer against real plugins, each test on all of them.

use super::*;
use crate::dtype::DType;
use crate::error::{Kind, Result};
use smallvec::SmallVec;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;
use std::time::{Duration, Instant};

const ADD: &str = "module { func.func public @main(%a: tensor<64xf32>, %b: tensor<64xf32>) -> tensor<64xf32> {
  %0 = \"stablehlo.add\"(%a, %b) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  return %0 : tensor<64xf32> } }";

const PAIR: &str = "module { func.func public @main(%a: tensor<2x3xf32>) -> (tensor<3x2xf32>, tensor<2x3xi1>) {
  %0 = \"stablehlo.transpose\"(%a) {permutation = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = stablehlo.compare GT, %a, %a : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
  return %0, %1 : tensor<3x2xf32>, tensor<2x3xi1> } }";

/// `ADD` that donates its first argument.
fn donating(attribute: &str) -> String {
    ADD.replacen("tensor<64xf32>,", &format!("tensor<64xf32> {{{attribute}}},"), 1)
}

fn packages() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(".venv/lib");
    let entries =
        std::fs::read_dir(&root).unwrap_or_else(|error| panic!("{}: {error}; run `make test` once", root.display()));
    let python = entries
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.file_name().unwrap().to_string_lossy().starts_with("python3"));
    python.expect("a Python in .venv").join("site-packages")
}

/// `TORCH_TPU_TEST_PLUGINS` (separated by colons), else the CPU plugins of the checkout's virtual environment. A
/// missing one is a failure.
fn plugins() -> Vec<PathBuf> {
    let paths: Vec<PathBuf> = match std::env::var("TORCH_TPU_TEST_PLUGINS") {
        Ok(list) => list.split(':').map(PathBuf::from).collect(),
        Err(_) => [
            "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so",
            "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so",
        ]
        .iter()
        .map(|relative| packages().join(relative))
        .collect(),
    };
    for path in &paths {
        assert!(
            path.exists(),
            "{} is missing: run `make test` once, or set TORCH_TPU_TEST_PLUGINS",
            path.display()
        );
    }
    paths
}

/// Runs `body` with a client of `devices` devices on each plugin.
fn on_each_plugin(devices: i64, body: impl Fn(&Arc<Client>)) {
    for path in plugins() {
        let plugin = Plugin::load(&path).unwrap();
        body(&Client::new(&plugin, &[("cpu_device_count", ClientOption::Int(devices))]).unwrap());
    }
}

fn floats(device: &Device, values: &[f32]) -> Arc<Buffer> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    Arc::new(Buffer::from_host(device, &bytes, DType::F32, &[values.len() as i64]).unwrap())
}

fn read(buffer: &Buffer) -> Result<Vec<f32>> {
    let mut bytes = vec![0; buffer.dims()?.iter().product::<i64>() as usize * 4];
    buffer.read_into(&mut bytes)?;
    Ok(bytes
        .chunks(4)
        .map(|chunk| f32::from_ne_bytes(chunk.try_into().unwrap()))
        .collect())
}

fn run(
    executable: &Executable,
    arguments: &[Arc<Buffer>],
    device: &Device,
    kept: &[i64],
) -> Result<SmallVec<[Buffer; 4]>> {
    let mut outputs = SmallVec::new();
    let event = executable.execute(arguments, device, kept, false, &mut outputs)?;
    assert!(event.is_none(), "no event was asked for");
    Ok(outputs)
}

#[test]
fn the_declarations_agree_with_the_header() {
    let include = packages().join("xla_plugins/xla_cpu_pjrt/include");
    let header = std::fs::read_to_string(include.join("pjrt_c_api.h")).unwrap();
    let names: Vec<&str> = header
        .lines()
        .filter_map(|line| line.trim().strip_prefix("_PJRT_API_STRUCT_FIELD(")?.strip_suffix(");"))
        .collect();
    let short = |name: &str| name.strip_prefix("PJRT_").unwrap().replace('_', "");
    let ours: Vec<String> = ffi::SLOTS.iter().map(|slot| format!("{slot:?}")).collect();
    assert_eq!(names.iter().map(|name| short(name)).collect::<Vec<_>>(), ours);

    // The C compiler compares the sizes.
    let mut source = String::from("#include \"pjrt_c_api.h\"\n");
    for (name, size) in ffi::ARGUMENTS {
        let name = names.iter().find(|full| short(full) == *name).unwrap();
        source += &format!("_Static_assert({name}_Args_STRUCT_SIZE == {size}, \"\");\n");
    }
    for (name, size) in ffi::STRUCTS {
        let name = match *name {
            "TiledLayout" => "Buffer_MemoryLayout_Tiled",
            "MemoryLayout" => "Buffer_MemoryLayout",
            other => other,
        };
        source += &format!("_Static_assert(PJRT_{name}_STRUCT_SIZE == {size}, \"\");\n");
    }
    source += &format!(
        "_Static_assert(offsetof(PJRT_Api, PJRT_Error_Destroy) == {}, \"\");\n",
        size_of::<ffi::Api>()
    );
    let file = std::env::temp_dir().join(format!("torch_tpu_sizes_{}.c", std::process::id()));
    std::fs::write(&file, source).unwrap();
    let output = Command::new("cc")
        .arg("-fsyntax-only")
        .arg("-I")
        .arg(&include)
        .arg(&file)
        .output()
        .expect("a C compiler");
    std::fs::remove_file(&file).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn plugin_client_and_devices_tell_of_themselves() {
    for path in plugins() {
        let plugin = Plugin::load(&path).unwrap();
        assert!(plugin.api_version() >= (0, 70));
        assert!(
            plugin
                .attributes()
                .unwrap()
                .iter()
                .any(|(name, _)| name == "stablehlo_current_version")
        );
    }
    on_each_plugin(2, |client| {
        assert_eq!(client.platform_name(), "cpu");
        let ids: Vec<i32> = client.devices().iter().map(Device::id).collect();
        assert_eq!((ids.len(), ids[0] != ids[1]), (2, true));
        let device = &client.devices()[1];
        assert!(!device.kind().is_empty());
        assert!(!device.default_memory().unwrap().kind.is_empty());
        // CPU plugins keep no statistics.
        assert!(device.memory_stats().map_or_else(
            |error| error.kind == Kind::NotImplemented,
            |stats| stats.in_use_bytes >= 0
        ));
        let buffer = floats(device, &[1.0]);
        assert_eq!(buffer.device().unwrap().id(), device.id());
        assert!(buffer.is_on(device) && !buffer.is_on(&client.devices()[0]));
    });
}

#[test]
fn one_portable_executable_runs_on_every_device_also_when_reloaded() {
    on_each_plugin(4, |client| {
        assert_eq!(client.devices().len(), 4);
        let executable = client.compile(ADD, PORTABLE_OPTIONS).unwrap();
        let reloaded = client.load_serialized(&executable.serialize().unwrap()).unwrap();
        for device in client.devices() {
            for executable in [&executable, &reloaded] {
                assert_eq!(executable.num_outputs(), 1);
                let mut outputs = SmallVec::new();
                let arguments = [floats(device, &[1.5; 64]), floats(device, &[2.0; 64])];
                let event = executable
                    .execute(&arguments, device, &[], true, &mut outputs)
                    .unwrap()
                    .expect("an event");
                drop(arguments);
                event.wait().unwrap();
                assert!(event.is_ready().unwrap());
                assert!(outputs[0].is_on(device));
                assert_eq!(outputs[0].bytes(), 256);
                assert_eq!(read(&outputs[0]).unwrap(), vec![3.5; 64]);
            }
        }
    });
}

#[test]
fn several_results_come_row_major_with_their_types() {
    on_each_plugin(1, |client| {
        let device = &client.devices()[0];
        let bytes: Vec<u8> = (0..6).flat_map(|value| (value as f32).to_ne_bytes()).collect();
        let matrix = Arc::new(Buffer::from_host(device, &bytes, DType::F32, &[2, 3]).unwrap());
        let executable = client.compile(PAIR, PORTABLE_OPTIONS).unwrap();
        assert!(executable.memory_stats().unwrap().output_bytes > 0);
        for _ in 0..2 {
            let outputs = run(&executable, std::slice::from_ref(&matrix), device, &[]).unwrap();
            assert_eq!(read(&outputs[0]).unwrap(), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
            assert_eq!(
                (outputs[0].dims().unwrap().as_slice(), outputs[1].dtype().unwrap()),
                (&[3i64, 2][..], DType::Bool)
            );
            assert_eq!((outputs[0].bytes(), outputs[1].bytes()), (24, 6));
        }
    });
}

#[test]
fn a_donated_argument_is_gone_and_a_kept_one_is_not() {
    on_each_plugin(1, |client| {
        let device = &client.devices()[0];
        for attribute in ["tf.aliasing_output = 0 : i32", "jax.buffer_donor = true"] {
            let executable = client.compile(&donating(attribute), PORTABLE_OPTIONS).unwrap();
            let reloaded = client.load_serialized(&executable.serialize().unwrap()).unwrap();
            for executable in [executable, reloaded] {
                let (a, b) = (floats(device, &[1.0; 64]), floats(device, &[2.0; 64]));
                for _ in 0..2 {
                    let outputs = run(&executable, &[a.clone(), b.clone()], device, &[0]).unwrap();
                    assert_eq!(read(&outputs[0]).unwrap(), vec![3.0; 64]);
                    assert!(!a.is_deleted());
                    assert_eq!(read(&a).unwrap(), vec![1.0; 64], "a kept argument has its value still");
                }
                let outputs = run(&executable, &[a.clone(), b.clone()], device, &[]).unwrap();
                assert_eq!(read(&outputs[0]).unwrap(), vec![3.0; 64]);
                assert!(a.is_deleted() && !b.is_deleted(), "{attribute}");
                assert!(read(&a).is_err(), "a donated argument cannot be read");
                assert!(
                    run(&executable, &[a.clone(), b.clone()], device, &[]).is_err(),
                    "nor used"
                );
                // One buffer as the donated and as another argument.
                assert!(run(&executable, &[b.clone(), b.clone()], device, &[]).is_err());
                let outputs = run(&executable, &[b.clone(), b.clone()], device, &[0]).unwrap();
                assert_eq!(read(&outputs[0]).unwrap(), vec![4.0; 64]);
            }
        }
    });
}

#[test]
fn every_dtype_goes_there_and_back() {
    on_each_plugin(1, |client| {
        for &dtype in DType::ALL {
            for dims in [&[][..], &[2, 3], &[0, 3], &[2, 1, 3, 1, 2, 1, 2]] {
                let count = dims.iter().product::<i64>() as usize * dtype.bytes();
                let data: Vec<u8> = (0..count)
                    .map(|byte| {
                        if dtype.is_bool() {
                            (byte % 2) as u8
                        } else {
                            (byte * 7 % 50) as u8
                        }
                    })
                    .collect();
                let buffer = Buffer::from_host(&client.devices()[0], &data, dtype, dims).unwrap();
                assert_eq!(
                    (buffer.dtype().unwrap(), buffer.dims().unwrap().as_slice()),
                    (dtype, dims)
                );
                let mut back = vec![255; data.len()];
                buffer.read_into(&mut back).unwrap();
                assert_eq!(back, data, "{dtype}");
            }
        }
    });
}

#[test]
fn host_data_is_copied_before_the_call_returns() {
    on_each_plugin(1, |client| {
        for elements in [1, 64, 1 << 20] {
            let mut data = vec![1u8; elements];
            let buffer = Buffer::from_host(&client.devices()[0], &data, DType::U8, &[elements as i64]).unwrap();
            data.fill(2);
            let mut back = vec![0; elements];
            buffer.read_into(&mut back).unwrap();
            assert!(back.iter().all(|&byte| byte == 1));
        }
    });
}

#[test]
fn buffers_are_copied_between_devices() {
    on_each_plugin(2, |client| {
        let [first, second] = client.devices() else {
            panic!("two devices")
        };
        let buffer = floats(first, &[1.0, 2.0]);
        let copy = buffer.copy_to_device(second).unwrap();
        assert!(copy.is_on(second));
        drop(buffer);
        assert_eq!(read(&copy).unwrap(), [1.0, 2.0]);
    });
}

#[test]
fn errors_are_values() {
    on_each_plugin(1, |client| {
        let device = &client.devices()[0];
        let error = client.compile("module { nonsense }", PORTABLE_OPTIONS).unwrap_err();
        assert!(error.message.contains("nonsense"), "{error}");
        assert!(client.load_serialized(b"nonsense").is_err());

        let executable = client.compile(ADD, PORTABLE_OPTIONS).unwrap();
        let (good, short) = (floats(device, &[1.0; 64]), floats(device, &[1.0]));
        let error = run(&executable, &[good.clone(), short], device, &[]).unwrap_err();
        assert!(error.message.contains("parameter 1"), "{error}");
        assert!(
            run(&executable, std::slice::from_ref(&good), device, &[]).is_err(),
            "too few arguments"
        );

        let error = Buffer::from_host(device, &[0; 3], DType::F32, &[1]).unwrap_err();
        assert!(error.message.contains("has 4 bytes, got 3"), "{error}");
        assert!(Buffer::from_host(device, &[], DType::F32, &[-1]).is_err());
        assert!(Buffer::from_host(device, &[], DType::F32, &[i64::MAX, i64::MAX]).is_err());
        assert!(good.read_into(&mut [0; 8]).is_err());

        let other = Client::new(&Plugin::load(&plugins()[0]).unwrap(), &[]).unwrap();
        let error = run(
            &executable,
            &[good.clone(), floats(&other.devices()[0], &[1.0; 64])],
            device,
            &[],
        )
        .unwrap_err();
        assert!(error.message.contains("different PJRT clients"), "{error}");
        assert!(good.copy_to_device(&other.devices()[0]).is_err());
    });
}

#[test]
fn what_is_no_plugin_is_refused() {
    let text = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    assert!(
        Plugin::load(&text)
            .unwrap_err()
            .message
            .contains("not a shared library")
    );
    assert!(
        Plugin::load(Path::new("/nowhere/plugin.so"))
            .unwrap_err()
            .message
            .contains("cannot be opened")
    );
    let library = std::env::temp_dir().join(format!("torch_tpu_no_plugin_{}.so", std::process::id()));
    assert!(
        Command::new("cc")
            .args(["-shared", "-x", "c", "/dev/null", "-o"])
            .arg(&library)
            .status()
            .expect("a C compiler")
            .success()
    );
    let error = Plugin::load(&library).unwrap_err();
    std::fs::remove_file(&library).unwrap();
    assert!(error.message.contains("exports no GetPjrtApi"), "{error}");
    for (major, minor) in [(0, 69), (1, 100)] {
        let error = plugin::supported(major, minor).unwrap_err();
        assert!(error.message.contains("install another version"), "{error}");
    }
}

#[test]
fn a_callback_runs_once_the_event_is_ready_and_may_panic() {
    on_each_plugin(1, |client| {
        let executable = client.compile(ADD, PORTABLE_OPTIONS).unwrap();
        let device = &client.devices()[0];
        let (sender, receiver) = mpsc::channel();
        let outputs = run(
            &executable,
            &[floats(device, &[1.0; 64]), floats(device, &[1.0; 64])],
            device,
            &[],
        )
        .unwrap();
        let event = outputs[0].ready_event().unwrap();
        event.on_ready(Box::new(|_| panic!("on purpose: must not reach the plugin")));
        event.on_ready(Box::new(move |result| sender.send(result.is_ok()).unwrap()));
        drop(event);
        assert!(receiver.recv_timeout(Duration::from_secs(10)).unwrap());
        assert!(receiver.recv_timeout(Duration::from_millis(10)).is_err(), "once");
    });
}

#[test]
fn threads_share_client_executable_and_buffers() {
    fn shared<T: Send + Sync>() {}
    shared::<(Client, Device, Buffer, Event, Executable, Compiled, Topology, Plugin)>();
    on_each_plugin(2, |client| {
        let executable = client.compile(ADD, PORTABLE_OPTIONS).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let executable = &executable;
                let device = &client.devices()[thread % 2];
                scope.spawn(move || {
                    let one = floats(device, &[1.0; 64]);
                    let mut sum = one.clone();
                    for _ in 0..100 {
                        sum = Arc::new(run(executable, &[sum, one.clone()], device, &[]).unwrap().remove(0));
                    }
                    assert_eq!(read(&sum).unwrap(), vec![101.0; 64]);
                });
            }
        });
    });
}

/// Of the CPU plugins, one has a compiler that needs no client and the other refuses in words.
#[test]
fn programs_are_compiled_for_a_topology_where_the_plugin_can() {
    on_each_plugin(1, |client| {
        let topology = Topology::of_client(client).unwrap();
        assert_eq!(topology.platform_name().unwrap(), "cpu");
        match topology.compile(ADD, PORTABLE_OPTIONS) {
            Ok(compiled) => {
                println!("{} compiles without a client", client.platform_version());
                drop(topology);
                assert_eq!(compiled.num_outputs().unwrap(), 1);
                let executable = client.load_serialized(&compiled.serialize().unwrap()).unwrap();
                let device = &client.devices()[0];
                let outputs = run(
                    &executable,
                    &[floats(device, &[1.0; 64]), floats(device, &[1.0; 64])],
                    device,
                    &[],
                );
                assert_eq!(read(&outputs.unwrap()[0]).unwrap(), vec![2.0; 64]);
            }
            Err(error) => assert!(
                error.message.contains("No compiler registered for platform cpu"),
                "{error}"
            ),
        }
    });
    for path in plugins() {
        match Topology::new(&Plugin::load(&path).unwrap(), "nonsense") {
            Ok(topology) => println!(
                "{}: takes any name, as {}",
                path.display(),
                topology.platform_name().unwrap()
            ),
            Err(error) => assert!(error.message.starts_with("topology nonsense: "), "{error}"),
        }
    }
}

/// With `TORCH_TPU_TEST_LIBTPU` (a path) and `TPU_SKIP_MDS_QUERY=1`, on a machine without a TPU.
#[test]
#[ignore = "needs libtpu, which the tests do not install"]
fn libtpu_compiles_for_a_topology_without_a_device() {
    let path = std::env::var("TORCH_TPU_TEST_LIBTPU").expect("TORCH_TPU_TEST_LIBTPU, the path of libtpu.so");
    let plugin = Plugin::load(Path::new(&path)).unwrap();
    let topology = Topology::new(&plugin, "v5e:2x2").unwrap();
    assert_eq!(topology.platform_name().unwrap(), "tpu");
    let compiled = topology
        .compile(&donating("tf.aliasing_output = 0 : i32"), PORTABLE_OPTIONS)
        .unwrap();
    drop(topology);
    assert_eq!(compiled.num_outputs().unwrap(), 1);
    assert!(!compiled.serialize().unwrap().is_empty());
    let stats = compiled.memory_stats().unwrap();
    println!("API {:?}: {stats:?}", plugin.api_version());
    assert!(stats.argument_bytes > 0 && stats.alias_bytes > 0);
    assert!(Topology::new(&plugin, "nonsense").is_err());
}

/// Counters are the process's, other tests run at the same time: this one runs itself again, alone.
#[test]
fn what_is_created_is_destroyed() {
    const ALONE: &str = "TORCH_TPU_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "pjrt::tests::what_is_created_is_destroyed"])
            .env(ALONE, "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.contains("1 passed"),
            "{text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        return;
    }
    let live =
        || [&LIVE_BUFFERS, &LIVE_EVENTS, &LIVE_EXECUTABLES, &LIVE_BUFFER_BYTES].map(|counter| counter.load(Relaxed));
    on_each_plugin(1, |client| {
        assert_eq!(live(), [0; 4]);
        let device = &client.devices()[0];
        let executable = client.compile(ADD, PORTABLE_OPTIONS).unwrap();
        let arguments = [floats(device, &[1.0; 64]), floats(device, &[1.0; 64])];
        assert_eq!(live(), [2, 0, 1, 512]);
        for run in 1..=2 {
            let mut outputs = SmallVec::new();
            let event = executable.execute(&arguments, device, &[], true, &mut outputs).unwrap();
            assert_eq!(live(), [3, 1, 1, 768], "run {run}");
            event.unwrap().wait().unwrap();
        }
        assert!(run(&executable, &arguments[..1], device, &[]).is_err());
        assert_eq!(live(), [2, 0, 1, 512]);
        drop((executable, arguments));
        assert_eq!(live(), [0; 4]);
    });
}

/// Prints the floor under every call: `cargo test --release --no-default-features --lib pjrt -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn the_cost_of_an_execution() {
    const ROUNDS: u32 = 20_000;
    for path in plugins() {
        let plugin = Plugin::load(&path).unwrap();
        let client = Client::new(&plugin, &[]).unwrap();
        let device = &client.devices()[0];
        for (name, text) in [
            ("add", ADD.to_string()),
            ("add that donates", donating("tf.aliasing_output = 0 : i32")),
        ] {
            let executable = client.compile(&text, PORTABLE_OPTIONS).unwrap();
            for want_event in [false, true] {
                let (mut a, b) = (floats(device, &[1.0; 64]), floats(device, &[2.0; 64]));
                let mut times = Vec::new();
                for _ in 0..5 {
                    let start = Instant::now();
                    for _ in 0..ROUNDS {
                        let mut outputs = SmallVec::new();
                        let event = executable
                            .execute(&[a, b.clone()], device, &[], want_event, &mut outputs)
                            .unwrap();
                        drop(event);
                        a = Arc::new(outputs.pop().unwrap());
                    }
                    times.push(start.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS));
                }
                times.sort_by(f64::total_cmp);
                println!(
                    "API {:?} {name}, event {want_event}: median {:.2} µs, best {:.2}",
                    plugin.api_version(),
                    times[2],
                    times[0]
                );
            }
        }
    }
}
