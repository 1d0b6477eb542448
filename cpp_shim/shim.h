// What the shim's files share: records of tensors, tensors of records.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

#include "status.h"

namespace torch_tpu {

constexpr c10::DeviceType kDevice = c10::DeviceType::PrivateUse1;
constexpr c10::DispatchKey kKey = c10::DispatchKey::PrivateUse1;

// allocator.cc
c10::Allocator* device_allocator();
// Takes ownership of the allocation's handle.
c10::DataPtr data_pointer(const Allocation& allocation, c10::DeviceIndex device);
void release_allocation(void* context) noexcept;
// The handle that the storage owns; 0 for a pointer that came back without it (at::from_blob, DLPack), whose context is somebody else's.
inline uint64_t own_handle(const c10::StorageImpl& storage) {
  const auto& pointer = storage.data_ptr();
  return pointer.get_deleter() == &release_allocation ? reinterpret_cast<uint64_t>(pointer.get_context()) : 0;
}
inline uint64_t own_handle(const c10::TensorImpl& tensor) {
  return own_handle(*tensor.unsafe_storage().unsafeGetStorageImpl());
}

// boxed.cc
ArgumentRecord tensor_record(const c10::TensorImpl& tensor);
uint64_t overload_handle(const char* name, const char* overload);
void install_boxed();
// Runs an overload whose arguments are device tensors, numbers from 0-d CPU tensors, and trailing defaults given as none.
void call_writing(const char* name, const char* overload, at::TensorList tensors, size_t trailing_none);
at::Tensor new_tensor(const TensorRecord& record);

// masks.cc
bool is_index_with_masks(const std::string& base);
// Bool and byte masks among the indices (argument 1) become index tensors, where the program cannot take them as they are.
void expand_masks(const std::string& base, c10::IValue* arguments, size_t count);

void install_guard();     // guard.cc
void install_attention(); // attention.cc, before install_boxed
void install_linalg();    // linalg.cc, before install_boxed
void install_minimal();   // minimal.cc
void install_copy();      // copy.cc
void install_fallback();  // fallback.cc
void install_hooks();     // hooks.cc
void install_autocast();  // autocast.cc

at::Tensor& copy_between(at::Tensor& self, const at::Tensor& source, bool non_blocking);  // copy.cc

// For Rust: everything above, once; the name must not be taken by another backend.
void install();
// For Rust without Python: moves a tensor (`at::Tensor*`) to a device ("cpu", "tpu:0"), a new `at::Tensor*`.
size_t move_tensor(size_t tensor, rust::Str device);

}  // namespace torch_tpu
