// Allocation and views: metadata only, on stock TensorImpl and StorageImpl.
#include <ATen/EmptyTensor.h>
#include <ATen/InferSize.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "shim.h"

namespace torch_tpu {
namespace {

c10::Device device_of(std::optional<c10::Device> device) {
  if (device.has_value() && device->has_index()) {
    return *device;
  }
  return c10::Device(kDevice, static_cast<c10::DeviceIndex>(current_device()));
}

void check_options(std::optional<c10::Layout> layout, std::optional<bool> pin_memory) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      !layout.has_value() || *layout == c10::Layout::Strided, "only strided tensors are supported on this device, got layout ", *layout);
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
}

at::Tensor empty(
    c10::IntArrayRef size, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout> layout, std::optional<c10::Device> device,
    std::optional<bool> pin_memory, std::optional<c10::MemoryFormat> memory_format) {
  check_options(layout, pin_memory);
  const c10::OptionalDeviceGuard guard(device_of(device));
  return at::detail::empty_generic(
      size, device_allocator(), c10::DispatchKeySet(kKey), c10::dtype_or_default(dtype), memory_format);
}

at::Tensor empty_strided(
    c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout> layout,
    std::optional<c10::Device> device, std::optional<bool> pin_memory) {
  check_options(layout, pin_memory);
  const c10::OptionalDeviceGuard guard(device_of(device));
  return at::detail::empty_strided_generic(size, stride, device_allocator(), c10::DispatchKeySet(kKey), c10::dtype_or_default(dtype));
}

void grow_storage(const at::Tensor& self, size_t bytes) {
  const c10::Storage& storage = self.unsafeGetTensorImpl()->unsafe_storage();
  if (bytes > storage.nbytes()) {
    TORCH_CHECK(storage.resizable(), "Trying to resize storage that is not resizable");
    at::detail::getPrivateUse1Hooks().resizePrivateUse1Bytes(storage, bytes);
  }
}

const at::Tensor& resize_(const at::Tensor& self, c10::IntArrayRef size, std::optional<c10::MemoryFormat> memory_format) {
  auto* implementation = self.unsafeGetTensorImpl();
  if (self.sizes() != size) {
    implementation->set_sizes_contiguous(size);
    if (implementation->numel() > 0) {
      grow_storage(
          self, at::detail::computeStorageNbytesContiguous(size, self.dtype().itemsize(), static_cast<size_t>(self.storage_offset())));
    }
  }
  if (memory_format.has_value()) {
    TORCH_CHECK(*memory_format != c10::MemoryFormat::Preserve, "Unsupported memory format", *memory_format);
    implementation->empty_tensor_restride(*memory_format);
  }
  return self;
}

at::Tensor& set_storage(at::Tensor& self, c10::Storage source, int64_t offset, c10::IntArrayRef size, c10::IntArrayRef stride) {
  at::native::checkSetStorage(self, std::move(source), offset, size, stride);
  auto* implementation = self.unsafeGetTensorImpl();
  if (stride.data() != nullptr) {
    implementation->set_sizes_and_strides(size, stride, offset);
    if (implementation->numel() > 0) {
      grow_storage(
          self, at::detail::computeStorageNbytes(size, stride, self.dtype().itemsize(), static_cast<size_t>(offset)));
    }
  } else {
    implementation->set_storage_offset(offset);
    implementation->set_sizes_contiguous(size);
    if (implementation->numel() > 0) {
      grow_storage(self, at::detail::computeStorageNbytesContiguous(size, self.dtype().itemsize(), static_cast<size_t>(offset)));
    }
  }
  return self;
}

at::Tensor& set_source_storage_offset(
    at::Tensor& self, c10::Storage source, int64_t offset, c10::IntArrayRef size, c10::IntArrayRef stride) {
  return set_storage(self, std::move(source), offset, size, stride);
}

at::Tensor& set_source_storage(at::Tensor& self, c10::Storage source) {
  const auto elements = static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
  return set_storage(self, std::move(source), 0, {elements}, {});
}

at::Tensor& set_source_tensor(at::Tensor& self, const at::Tensor& source) {
  if (self.unsafeGetTensorImpl() != source.unsafeGetTensorImpl()) {
    set_storage(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
  }
  return self;
}

at::Tensor& set_nothing(at::Tensor& self) {
  const auto dtype = self.dtype();
  auto* allocator = device_allocator();
  const c10::OptionalDeviceGuard guard(self.device());
  auto storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), 0, allocator->allocate(0), allocator, /*resizable=*/true);
  set_storage(self, std::move(storage), 0, {0}, {});
  TORCH_INTERNAL_ASSERT(dtype == self.dtype());
  return self;
}

bool equal(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(self.device() == other.device(), "Expected all tensors to be on the same device, but found at least two devices, ", self.device(), " and ", other.device(), "!");
  TORCH_CHECK(
      self.scalar_type() == other.scalar_type(), "Expected object of data type ", self.scalar_type(), " but got data type ",
      other.scalar_type(), " for argument 'other' in call to equal");
  if (self.sizes() != other.sizes()) {
    return false;
  }
  return self.numel() == 0 || at::eq(self, other).all().item<bool>();
}

bool is_set_to(const at::Tensor& self, const at::Tensor& source) {
  return self.storage().unsafeGetStorageImpl() == source.storage().unsafeGetStorageImpl() &&
      self.storage_offset() == source.storage_offset() && self.sizes() == source.sizes() && self.strides() == source.strides();
}

void record_stream(at::Tensor&, c10::Stream) {}  // the runtime keeps buffers alive while they are in use

// `module.to(device)` keeps parameters the same objects (ties, optimisers) when their data may be exchanged, which the default denies to
// PrivateUse1: both sides are stock dense tensors, as with CUDA.
bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  const auto dense = [](const at::Tensor& tensor) {
    return tensor.layout() == c10::Layout::Strided && (tensor.device().type() == kDevice || tensor.device().is_cpu()) &&
        tensor.key_set().has_any(c10::DispatchKeySet(c10::DispatchKey::Dense));
  };
  return dense(self) && dense(from);
}

// A tensor that is known to be zero and has no storage: autograd's stand-in for an absent tangent.
at::Tensor efficient_zero_tensor(
    c10::IntArrayRef size, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout>, std::optional<c10::Device> device,
    std::optional<bool>) {
  at::native::ZeroTensorAllocator allocator(device_of(device));
  return at::detail::empty_generic(
      size, &allocator, c10::DispatchKeySet(kKey) | c10::DispatchKeySet(c10::DispatchKey::ZeroTensor), c10::dtype_or_default(dtype),
      std::nullopt);
}

}  // namespace

void install_minimal() {
  static torch::Library library(torch::Library::IMPL, "aten", kKey, __FILE__, __LINE__);
  library.impl("empty.memory_format", TORCH_FN(empty));
  library.impl("empty_strided", TORCH_FN(empty_strided));
  library.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  library.impl("view", TORCH_FN(at::native::view));
  library.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  library.impl("unfold", TORCH_FN(at::native::unfold));
  library.impl("view_as_real", TORCH_FN(at::native::view_as_real));
  library.impl("view_as_complex", TORCH_FN(at::native::view_as_complex));
  library.impl("resize_", TORCH_FN(resize_));
  library.impl("set_.source_Storage_storage_offset", TORCH_FN(set_source_storage_offset));
  library.impl("set_.source_Storage", TORCH_FN(set_source_storage));
  library.impl("set_.source_Tensor", TORCH_FN(set_source_tensor));
  library.impl("set_", TORCH_FN(set_nothing));
  library.impl("equal", TORCH_FN(equal));
  library.impl("is_set_to", TORCH_FN(is_set_to));
  library.impl("_efficientzerotensor", TORCH_FN(efficient_zero_tensor));
  library.impl("record_stream", TORCH_FN(record_stream));
  library.impl("_has_compatible_shallow_copy_type", TORCH_FN(has_compatible_shallow_copy_type));
}

}  // namespace torch_tpu
