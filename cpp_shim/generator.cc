#include "generator.h"

#include <ATen/EmptyTensor.h>

#include <cstring>

namespace torch_tpu {

// The state: seed and offset (in 128-bit Philox blocks), 8 bytes each, as a CPU uint8 tensor.
constexpr int64_t kStateBytes = 16;

Generator::Generator(c10::DeviceIndex device, uint64_t handle)
    : c10::GeneratorImpl(c10::Device(kDevice, device), c10::DispatchKeySet(kKey)), handle_(handle) {}

Generator::~Generator() {
  release_generator(handle_);
}

void Generator::set_current_seed(uint64_t seed) {
  set_generator(handle_, seed, 0);
}

void Generator::set_offset(uint64_t offset) {
  set_generator(handle_, generator_seed(handle_), offset);
}

uint64_t Generator::get_offset() const {
  return generator_offset(handle_);
}

uint64_t Generator::current_seed() const {
  return generator_seed(handle_);
}

uint64_t Generator::seed() {
  const uint64_t random = c10::detail::getNonDeterministicRandom();
  set_current_seed(random);
  return random;
}

void Generator::set_state(const c10::TensorImpl& state) {
  TORCH_CHECK(
      state.device().is_cpu() && c10::typeMetaToScalarType(state.dtype()) == c10::ScalarType::Byte && state.is_contiguous(),
      "RNG state must be a contiguous torch.ByteTensor on the CPU");
  TORCH_CHECK(state.numel() == kStateBytes, "RNG state must have ", kStateBytes, " bytes, got ", state.numel());
  uint64_t words[2];
  std::memcpy(words, state.data(), kStateBytes);
  set_generator(handle_, words[0], words[1]);
}

c10::intrusive_ptr<c10::TensorImpl> Generator::get_state() const {
  const uint64_t words[2] = {current_seed(), get_offset()};
  const at::Tensor state = at::detail::empty_cpu({kStateBytes}, c10::ScalarType::Byte);
  std::memcpy(state.mutable_data_ptr(), words, kStateBytes);
  return state.getIntrusivePtr();
}

Generator* Generator::clone_impl() const {
  auto* copy = new Generator(device().index(), new_generator(current_seed()));
  copy->set_offset(get_offset());
  return copy;
}

}  // namespace torch_tpu
