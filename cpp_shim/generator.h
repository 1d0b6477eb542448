// at::Generator over a Rust Philox generator.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

#include "shim.h"

namespace torch_tpu {

class Generator final : public c10::GeneratorImpl {
 public:
  // Takes ownership of the handle.
  Generator(c10::DeviceIndex device, uint64_t handle);
  ~Generator() override;

  uint64_t handle() const {
    return handle_;
  }

  void set_current_seed(uint64_t seed) override;
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override;
  uint64_t current_seed() const override;
  uint64_t seed() override;
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

 private:
  uint64_t handle_;

  Generator* clone_impl() const override;
};

}  // namespace torch_tpu
