// c10's device guard: current device, streams, events.
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "shim.h"

namespace torch_tpu {
namespace {

uint8_t index_of(c10::Device device) {
  return device.index() < 0 ? current_device() : static_cast<uint8_t>(device.index());
}

uint64_t event_of(void* event) {
  return reinterpret_cast<uint64_t>(event);
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override {
    return kDevice;
  }

  c10::Device exchangeDevice(c10::Device device) const override {
    if (device.index() < 0) {
      return getDevice();
    }
    check(check_device(device.index()));
    return c10::Device(kDevice, static_cast<c10::DeviceIndex>(exchange_device(index_of(device))));
  }

  c10::Device getDevice() const override {
    return c10::Device(kDevice, static_cast<c10::DeviceIndex>(current_device()));
  }

  void setDevice(c10::Device device) const override {
    exchangeDevice(device);
  }

  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() >= 0) {
      exchange_device(index_of(device));
    }
  }

  c10::Stream stream(uint8_t device, int64_t id) const {
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(kDevice, static_cast<c10::DeviceIndex>(device)), id);
  }

  c10::Stream getStream(c10::Device device) const override {
    const uint8_t index = index_of(device);
    return stream(index, current_stream(index));
  }

  c10::Stream getDefaultStream(c10::Device device) const override {
    return stream(index_of(device), 0);
  }

  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return getNewStream(device, 0);
  }

  c10::Stream getNewStream(c10::Device device, int) const override {
    const uint8_t index = index_of(device);
    int64_t id = 0;
    check(new_stream(index, id));
    return stream(index, id);
  }

  c10::Stream exchangeStream(c10::Stream next) const override {
    const uint8_t index = index_of(next.device());
    return stream(index, exchange_stream(index, next.id()));
  }

  void* getStreamNativeHandle(const c10::Stream next) const override {
    return reinterpret_cast<void*>(next.id());
  }

  bool queryStream(const c10::Stream& queried) const override {
    bool done = true;
    check(query_stream(index_of(queried.device()), queried.id(), done));
    return done;
  }

  void synchronizeStream(const c10::Stream& waited) const override {
    check(synchronize_stream(index_of(waited.device()), waited.id()));
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex device, const c10::EventFlag) const override {
    TORCH_CHECK(
        device == -1 || device == stream.device_index(),
        "Event device index ", static_cast<int>(device), " does not match recording stream's device index ",
        static_cast<int>(stream.device_index()), ".");
    *event = reinterpret_cast<void*>(record_event(event_of(*event), index_of(stream.device()), stream.id()));
  }

  void block(void* event, const c10::Stream& stream) const override {
    check(block_event(event_of(event), index_of(stream.device()), stream.id()));
  }

  bool queryEvent(void* event) const override {
    return query_event(event_of(event));
  }

  void synchronizeEvent(void* event) const override {
    check(synchronize_event(event_of(event)));
  }

  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    release_event(event_of(event));
  }

  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override {
    double milliseconds = 0;
    check(elapsed_milliseconds(event_of(start), event_of(end), milliseconds));
    return milliseconds;
  }

  void synchronizeDevice(const c10::DeviceIndex device) const override {
    check(synchronize_device(device < 0 ? current_device() : static_cast<uint8_t>(device)));
  }

  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(device_count());
  }

  c10::DeviceCapability getDeviceCapability(c10::Device) const override {
    using c10::ScalarType;
    c10::DeviceCapability capability;
    capability.capability_data.capability_bits = 0;
    auto& types = capability.capability_data.supported_scalar_types;
    types.has_Byte = types.has_Char = types.has_Short = types.has_Int = types.has_Long = 1;
    types.has_Half = types.has_BFloat16 = types.has_Float = types.has_Double = 1;
    types.has_ComplexFloat = types.has_ComplexDouble = types.has_Bool = 1;
    types.has_UInt16 = types.has_UInt32 = types.has_UInt64 = 1;
    return capability;
  }
};

}  // namespace

void install_guard() {
  static const c10::impl::DeviceGuardImplRegistrar registrar(kDevice, new Guard);  // never destroyed: c10 keeps the pointer
}

}  // namespace torch_tpu
