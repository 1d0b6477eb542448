// torch.autocast on this device: PyTorch's own lists of operators per policy.
#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include "shim.h"

namespace torch_tpu {
namespace {

using at::IntArrayRef;
using at::Tensor;
using c10::Scalar;
using c10::ScalarType;

at::Tensor binary_cross_entropy_banned(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, int64_t) {
  TORCH_CHECK(
      false,
      "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast: use binary_cross_entropy_with_logits or "
      "BCEWithLogitsLoss, which take the values before the sigmoid");
}

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
#define LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
  AT_FORALL_LOWER_PRECISION_FP(LOWER_PRECISION)
#undef LOWER_PRECISION
#define FLOAT32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
  AT_FORALL_FP32(FLOAT32)
#undef FLOAT32
#define FLOAT32_SET_DTYPE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
  AT_FORALL_FP32_SET_OPT_DTYPE(FLOAT32_SET_DTYPE)
#undef FLOAT32_SET_DTYPE
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
#define PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_PROMOTE(PROMOTE)
#undef PROMOTE
  m.impl("stack", TORCH_FN((&at::autocast::WrapFunction<
                             at::autocast::CastPolicy::promote, c10::DeviceType::PrivateUse1, at::Tensor(at::TensorList, int64_t),
                             at::Tensor(at::TensorList, int64_t), &ADD_NS(stack)>::type::call)));
  m.impl("cat", TORCH_FN((&at::autocast::WrapFunction<
                           at::autocast::CastPolicy::promote, c10::DeviceType::PrivateUse1,
                           at::Tensor(const at::ITensorListRef&, int64_t), at::Tensor(const at::ITensorListRef&, int64_t),
                           &ADD_NS(cat)>::type::call)));
  m.impl("binary_cross_entropy", TORCH_FN(binary_cross_entropy_banned));
}

}  // namespace

// Static registration above; this keeps the file in the link.
void install_autocast() {}

}  // namespace torch_tpu
