// Tiers two and three: PyTorch's own decomposition, then the CPU.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/CPUFallback.h>
#include <torch/library.h>

#include "shim.h"

namespace torch_tpu {
namespace {

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& name = op.operator_name();
  const std::string label = name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
  // Registers a kernel for this very overload, so that calling again reaches it.
  if (decompose(label)) {
    op.callBoxed(stack);
    return;
  }
  const uint8_t policy = fallback_policy();
  TORCH_CHECK_NOT_IMPLEMENTED(
      policy != 2, label, " has no lowering on this device and TORCH_TPU_FALLBACK=error forbids running it on the CPU; set "
      "TORCH_TPU_FALLBACK=warn to allow that");
  if (count_fallback(label) == 0 && policy == 0) {
    TORCH_WARN(
        label, " has no lowering on this device and runs on the CPU, with copies there and back (this is said once per operator; "
        "TORCH_TPU_FALLBACK=silent or error changes it)");
  }
  at::native::cpu_fallback(op, stack);
}

}  // namespace

void install_fallback() {
  static torch::Library library(torch::Library::IMPL, "_", kKey, __FILE__, __LINE__);
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

}  // namespace torch_tpu
