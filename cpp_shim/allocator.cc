// c10::DeviceAllocator over the Rust storages. Never takes the GIL; freeing only enqueues.
#include <c10/core/CachingDeviceAllocator.h>

#include "shim.h"

namespace torch_tpu {

void release_allocation(void* context) noexcept {
  release_storage(reinterpret_cast<uint64_t>(context));
}

namespace {

c10::CachingDeviceAllocator::Stat stat(int64_t current, int64_t peak, int64_t allocated, int64_t freed) {
  c10::CachingDeviceAllocator::Stat figures;
  figures.current = current;
  figures.peak = peak;
  figures.allocated = allocated;
  figures.freed = freed;
  return figures;
}

struct DeviceAllocator final : c10::DeviceAllocator {
  c10::DataPtr allocate(size_t bytes) override {
    const uint8_t device = current_device();
    Allocation allocation{};
    check(torch_tpu::allocate(device, bytes, allocation));
    return data_pointer(allocation, static_cast<c10::DeviceIndex>(device));
  }

  // The data pointer is an address that is never dereferenced, so there is nothing that a raw pointer alone could free.
  c10::DeleterFnPtr raw_deleter() const override {
    return nullptr;
  }

  void copy_data(void*, const void*, size_t) const override {
    TORCH_CHECK(false, "storages of this device cannot be cloned by address; clone a tensor that views the storage instead");
  }

  bool initialized() override {
    return is_started();
  }

  void emptyCache(c10::MempoolId_t) override {
    empty_cache();
  }

  void recordStream(const c10::DataPtr&, c10::Stream) override {}  // the runtime keeps buffers alive while they are in use

  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    const auto figures = memory_statistics(static_cast<uint8_t>(device));
    const auto bytes = stat(figures.bytes, figures.peak_bytes, figures.allocated_bytes, figures.freed_bytes);
    const auto counts = stat(figures.count, figures.peak_count, figures.allocated_count, figures.freed_count);
    const auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    c10::CachingDeviceAllocator::DeviceStats stats;
    for (auto* target : {&stats.allocated_bytes, &stats.reserved_bytes, &stats.active_bytes, &stats.requested_bytes}) {
      (*target)[all] = bytes;
    }
    for (auto* target : {&stats.allocation, &stats.active, &stats.segment}) {
      (*target)[all] = counts;
    }
    stats.num_device_alloc = figures.allocated_count;
    stats.num_device_free = figures.freed_count;
    stats.num_ooms = figures.out_of_memory;
    return stats;
  }

  void resetAccumulatedStats(c10::DeviceIndex device) override {
    reset_accumulated_statistics(static_cast<uint8_t>(device));
  }

  void resetPeakStats(c10::DeviceIndex device) override {
    reset_peak_statistics(static_cast<uint8_t>(device));
  }

  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    check(initialize());
    const auto figures = memory_statistics(static_cast<uint8_t>(device));
    const auto used = static_cast<uint64_t>(std::max<int64_t>(figures.bytes, 0));
    return {figures.limit_bytes > used ? figures.limit_bytes - used : 0, figures.limit_bytes};
  }
};

DeviceAllocator allocator;
REGISTER_ALLOCATOR(kDevice, &allocator);

}  // namespace

c10::Allocator* device_allocator() {
  return &allocator;
}

c10::DataPtr data_pointer(const Allocation& allocation, c10::DeviceIndex device) {
  return {
      reinterpret_cast<void*>(allocation.address),
      reinterpret_cast<void*>(allocation.storage),
      &release_allocation,
      c10::Device(kDevice, device)};
}

}  // namespace torch_tpu
