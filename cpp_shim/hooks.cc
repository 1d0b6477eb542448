// at::PrivateUse1HooksInterface, and the pinned host memory it hands out.
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <torch/library.h>

#include <cstdlib>
#include <map>
#include <mutex>

#include "generator.h"
#include "shim.h"

namespace torch_tpu {
namespace {

// Page-aligned host memory that is known to be ours. PJRT pins nothing by itself; plugins that map host memory (`PJRT_Client_DmaMap`) would do it here.
class PinnedAllocator final : public at::HostAllocator {
 public:
  at::DataPtr allocate(size_t bytes) override {
    constexpr size_t page = 4096;
    const size_t rounded = std::max<size_t>((bytes + page - 1) / page * page, page);
    void* data = std::aligned_alloc(page, rounded);
    TORCH_CHECK_WITH(OutOfMemoryError, data != nullptr, "cannot allocate ", rounded, " bytes of pinned host memory");
    const std::lock_guard<std::mutex> lock(mutex());
    blocks()[reinterpret_cast<uintptr_t>(data)] = rounded;
    return {data, data, &release, c10::DeviceType::CPU};
  }

  at::DeleterFnPtr raw_deleter() const override {
    return &release;
  }

  void copy_data(void* target, const void* source, size_t bytes) const override {
    default_copy_data(target, source, bytes);
  }

  bool record_event(void*, void*, c10::Stream) override {
    return true;  // host copies finish before the call returns
  }

  void empty_cache() override {}

  at::HostStats get_stats() override {
    return {};
  }

  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}

  static bool owns(const void* data) {
    const std::lock_guard<std::mutex> lock(mutex());
    auto next = blocks().upper_bound(reinterpret_cast<uintptr_t>(data));
    if (next == blocks().begin()) {
      return false;
    }
    --next;
    return reinterpret_cast<uintptr_t>(data) < next->first + next->second;
  }

 private:
  static void release(void* data) noexcept {
    {
      const std::lock_guard<std::mutex> lock(mutex());
      blocks().erase(reinterpret_cast<uintptr_t>(data));
    }
    std::free(data);
  }

  // Never destroyed: tensors may be freed after static destructors have run.
  static std::mutex& mutex() {
    static auto* instance = new std::mutex;
    return *instance;
  }

  static std::map<uintptr_t, size_t>& blocks() {
    static auto* instance = new std::map<uintptr_t, size_t>;
    return *instance;
  }
};

PinnedAllocator pinned_allocator;

const at::Generator& default_generator_of(c10::DeviceIndex device) {
  static auto* generators = new std::map<c10::DeviceIndex, at::Generator>;
  static auto* mutex = new std::mutex;
  const std::lock_guard<std::mutex> lock(*mutex);
  const c10::DeviceIndex index = device < 0 ? static_cast<c10::DeviceIndex>(current_device()) : device;
  auto found = generators->find(index);
  if (found == generators->end()) {
    found = generators->emplace(index, at::make_generator<Generator>(index, default_generator(static_cast<uint8_t>(index)))).first;
  }
  return found->second;
}

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override {
    return true;
  }

  bool isAvailable() const override {
    return is_available();
  }

  void init() const override {
    check(initialize());
  }

  bool hasPrimaryContext(c10::DeviceIndex) const override {
    return is_started();
  }

  c10::DeviceIndex deviceCount() const override {
    return static_cast<c10::DeviceIndex>(device_count());
  }

  void setCurrentDevice(c10::DeviceIndex device) const override {
    exchangeDevice(device);
  }

  c10::DeviceIndex getCurrentDevice() const override {
    return static_cast<c10::DeviceIndex>(current_device());
  }

  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    if (device < 0) {
      return -1;
    }
    check(check_device(device));
    return static_cast<c10::DeviceIndex>(exchange_device(static_cast<uint8_t>(device)));
  }

  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return exchangeDevice(device);
  }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override {
    return default_generator_of(device);
  }

  at::Generator getNewGenerator(c10::DeviceIndex device) const override {
    const auto index = device < 0 ? static_cast<c10::DeviceIndex>(current_device()) : device;
    constexpr uint64_t default_seed = 67280421310721;  // c10::detail::default_rng_seed_val
    return at::make_generator<Generator>(index, new_generator(default_seed));
  }

  // The device stands in the address: see src/storage/store.rs.
  at::Device getDeviceFromPtr(void* data) const override {
    const auto address = reinterpret_cast<uint64_t>(data);
    TORCH_CHECK((address >> 58) == 0x10, "the pointer does not belong to this device");
    return c10::Device(kDevice, static_cast<c10::DeviceIndex>((address >> 52) & 0x3f));
  }

  bool isPinnedPtr(const void* data) const override {
    return PinnedAllocator::owns(data);
  }

  c10::Allocator* getPinnedMemoryAllocator() const override {
    return &pinned_allocator;
  }

  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    auto* implementation = storage.unsafeGetStorageImpl();
    const auto device = storage.device().index();
    Allocation allocation{};
    if (const auto handle = own_handle(*implementation)) {
      check(resize_storage(handle, bytes, allocation));
    } else {
      check(allocate(static_cast<uint8_t>(device), bytes, allocation));
    }
    implementation->set_data_ptr_noswap(data_pointer(allocation, device));
    implementation->set_nbytes(bytes);
  }
};

}  // namespace

void install_hooks() {
  at::RegisterPrivateUse1HooksInterface(new Hooks);  // never destroyed: PyTorch keeps the pointer
  at::setHostAllocator(kDevice, &pinned_allocator);
  // The default generators as Python objects, without a client: `torch.ops.torch_tpu.default_generator(0)`.
  static torch::Library library(torch::Library::FRAGMENT, "torch_tpu", std::nullopt, __FILE__, __LINE__);
  library.def("default_generator(int device) -> Generator?", [](int64_t device) {
    return default_generator_of(static_cast<c10::DeviceIndex>(device));
  });
}

}  // namespace torch_tpu
