// Registration with PyTorch, once per process.
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <mutex>

#include "shim.h"

namespace torch_tpu {

void install() {
  static std::once_flag once;
  std::call_once(once, [] {
    const std::string name(device_name());
    c10::register_privateuse1_backend(name);
    install_guard();
    install_hooks();
    install_attention();
    install_linalg();
    install_boxed();
    install_minimal();
    install_copy();
    install_fallback();
    install_autocast();
  });
}

size_t move_tensor(size_t tensor, rust::Str device) {
  const auto& source = *reinterpret_cast<const at::Tensor*>(tensor);
  return reinterpret_cast<size_t>(new at::Tensor(source.to(c10::Device(std::string(device)))));
}

}  // namespace torch_tpu
