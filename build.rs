//! Finds torch and compiles the C++ shim and the cxx bridge against it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "torch")]
    shim::build();
}

#[cfg(feature = "torch")]
mod shim {
    use std::path::{Path, PathBuf};
    use std::process::Command;

    const FILES: &[&str] = &[
        "allocator",
        "attention",
        "autocast",
        "boxed",
        "copy",
        "fallback",
        "generator",
        "guard",
        "hooks",
        "install",
        "linalg",
        "masks",
        "minimal",
    ];

    pub fn build() {
        let torch = torch_folder();
        let mut build = cxx_build::bridge("src/bridge.rs");
        build
            .std("c++20")
            .include(torch.join("include"))
            .include(torch.join("include/torch/csrc/api/include"))
            .include("cpp_shim")
            .flag_if_supported("-Wno-unused-parameter")
            .flag_if_supported("-Wno-deprecated-copy")
            .flag_if_supported("-Wno-psabi")
            .flag_if_supported("-Wno-interference-size")
            .flag_if_supported("-fvisibility=hidden")
            .define("_GLIBCXX_USE_CXX11_ABI", "1")
            .opt_level(2)
            .debug(false);
        for file in FILES {
            let path = format!("cpp_shim/{file}.cc");
            println!("cargo:rerun-if-changed={path}");
            build.file(path);
        }
        for header in ["shim.h", "status.h", "generator.h"] {
            println!("cargo:rerun-if-changed=cpp_shim/{header}");
        }
        println!("cargo:rerun-if-changed=src/bridge.rs");
        build.compile("torch_tpu_shim");
        // The loader finds these in the process: torch is imported first.
        println!("cargo:rustc-link-search=native={}", torch.join("lib").display());
        for library in ["c10", "torch_cpu"] {
            println!("cargo:rustc-link-lib=dylib={library}");
        }
        // Static initialisers of the shim (guard, allocator) must stay in the link.
        println!("cargo:rerun-if-env-changed=TORCH_TPU_TORCH");
        println!("cargo:rerun-if-env-changed=PYO3_PYTHON");
    }

    /// The `torch` folder: `TORCH_TPU_TORCH`, else the one of the active Python.
    fn torch_folder() -> PathBuf {
        if let Ok(folder) = std::env::var("TORCH_TPU_TORCH") {
            return check(PathBuf::from(folder));
        }
        let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| ".".into()));
        let local = root.join(".venv/bin/python");
        let python = std::env::var("PYO3_PYTHON")
            .map(PathBuf::from)
            .unwrap_or(if local.exists() { local } else { "python3".into() });
        let find = "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])";
        let output = Command::new(&python).args(["-c", find]).output();
        match output {
            Ok(output) if output.status.success() => {
                check(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
            }
            _ => panic!(
                "torch was not found with {}: install torch==2.13.0 into the active Python, or set TORCH_TPU_TORCH to the folder of the torch package",
                python.display()
            ),
        }
    }

    fn check(folder: PathBuf) -> PathBuf {
        let header = Path::new("include/ATen/ATen.h");
        assert!(
            folder.join(header).exists(),
            "{} holds no {}: it is not a torch package",
            folder.display(),
            header.display()
        );
        folder
    }
}
