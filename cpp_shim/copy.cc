// Copies between devices: host to device, device to host, device to device; on one device the table's `copy` runs.
#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "shim.h"

namespace torch_tpu {
namespace {

// Whether the tensor is all that its storage holds, in order.
bool covers_storage(const at::Tensor& tensor) {
  return own_handle(*tensor.unsafeGetTensorImpl()) != 0 && tensor.storage_offset() == 0 && tensor.is_contiguous() && tensor.nbytes() == tensor.storage().nbytes() && !tensor.is_conj() &&
      !tensor.is_neg();
}

void upload_into(const at::Tensor& self, const at::Tensor& source) {
  at::Tensor host = source.expand(self.sizes()).to(self.scalar_type()).contiguous().resolve_conj().resolve_neg();
  const at::Tensor target = covers_storage(self) ? self : at::empty(self.sizes(), self.options());
  const auto sizes = target.sizes();
  check(upload(
      own_handle(*target.unsafeGetTensorImpl()), static_cast<uint8_t>(target.scalar_type()), {sizes.data(), sizes.size()},
      static_cast<const uint8_t*>(host.const_data_ptr()), host.nbytes()));
  if (!target.is_same(self)) {
    call_writing("aten::copy_", "", {self, target}, 1);
  }
}

void download_into(const at::Tensor& self, const at::Tensor& source) {
  const bool direct = self.scalar_type() == source.scalar_type() && self.sizes() == source.sizes() && self.is_contiguous() &&
      !self.is_conj() && !self.is_neg();
  const at::Tensor host = direct ? self : at::empty(source.sizes(), source.options().device(c10::kCPU));
  check(download(
      tensor_record(*source.unsafeGetTensorImpl()), static_cast<uint8_t*>(host.mutable_data_ptr()), host.nbytes()));
  if (!direct) {
    self.copy_(host);
  }
}

at::Tensor on_device(const at::Tensor& source, c10::Device device) {
  Allocation allocation{};
  check(copy_to_device(tensor_record(*source.unsafeGetTensorImpl()), static_cast<uint8_t>(device.index()), allocation));
  auto storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), source.nbytes(), data_pointer(allocation, device.index()), device_allocator(),
      /*resizable=*/true);
  const c10::OptionalDeviceGuard guard(device);
  return at::empty({0}, source.options().device(device)).set_(c10::Storage(std::move(storage)), 0, source.sizes());
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  return copy_between(self, source, non_blocking);
}

at::Tensor copy_from(const at::Tensor& source, const at::Tensor& target, bool non_blocking) {
  at::Tensor self = target;
  copy_between(self, source, non_blocking);
  return target;
}

at::Tensor copy_from_and_resize(const at::Tensor& source, const at::Tensor& target) {
  if (target.sizes() != source.sizes()) {
    target.resize_(source.sizes());
  }
  return copy_from(source, target, false);
}

c10::Scalar local_scalar_dense(const at::Tensor& self) {
  alignas(16) uint8_t bytes[16];
  const auto dtype = self.scalar_type();
  check(download(tensor_record(*self.unsafeGetTensorImpl()), bytes, c10::elementSize(dtype)));
  switch (dtype) {
    case c10::ScalarType::Float:
      return *reinterpret_cast<float*>(bytes);
    case c10::ScalarType::Double:
      return *reinterpret_cast<double*>(bytes);
    case c10::ScalarType::Long:
      return *reinterpret_cast<int64_t*>(bytes);
    case c10::ScalarType::Bool:
      return bytes[0] != 0;
    default:
      return at::from_blob(bytes, {}, at::TensorOptions().dtype(dtype)).item();
  }
}

}  // namespace

at::Tensor& copy_between(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  TORCH_CHECK(self.defined() && source.defined(), "copy_: both tensors must be defined");
  if (self.is_same(source)) {
    return self;
  }
  if (source.is_complex() && !self.is_complex()) {
    TORCH_WARN_ONCE("Casting complex values to real discards the imaginary part");
  }
  const bool to_device = self.device().type() == kDevice;
  const bool from_device = source.device().type() == kDevice;
  if (self.numel() == 0) {
    (void)source.expand(self.sizes());  // raises where the shapes do not go together
    return self;
  }
  if (to_device && from_device) {
    at::assert_no_internal_overlap(self);
    at::assert_no_partial_overlap(self, source);
    const at::Tensor near = self.device() == source.device() ? source : on_device(source, self.device());
    call_writing("aten::copy_", "", {self, near}, 1);
  } else if (to_device && source.device().is_cpu()) {
    upload_into(self, source);
  } else if (from_device && self.device().is_cpu()) {
    download_into(self, source);
  } else {
    // A third device: by way of the host.
    self.copy_(source.to(c10::kCPU), non_blocking);
  }
  return self;
}

void install_copy() {
  static torch::Library library(torch::Library::IMPL, "aten", kKey, __FILE__, __LINE__);
  library.impl("copy_", TORCH_FN(copy_));
  library.impl("_copy_from", TORCH_FN(copy_from));
  library.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  library.impl("_local_scalar_dense", TORCH_FN(local_scalar_dense));
}

}  // namespace torch_tpu
