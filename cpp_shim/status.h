// Status bytes of the bridge → the C++ exceptions that become the expected Python ones.
#pragma once

#include <c10/util/Exception.h>

#include "torch_tpu/src/bridge.rs.h"

namespace torch_tpu {

constexpr uint8_t kResize = 100;

[[noreturn]] inline void raise_status(uint8_t status) {
  const std::string message(take_error());
  const c10::SourceLocation here = {__func__, __FILE__, static_cast<uint32_t>(__LINE__)};
  switch (status) {
    case 2:
      throw c10::IndexError(here, message);
    case 3:
      throw c10::NotImplementedError(here, message);
    case 4:
      throw c10::TypeError(here, message);
    case 5:
      throw c10::ValueError(here, message);
    case 6:
      throw c10::OutOfMemoryError(here, message);
    default:
      throw c10::Error(here, message);
  }
}

inline void check(uint8_t status) {
  if (C10_UNLIKELY(status != 0)) {
    raise_status(status);
  }
}

}  // namespace torch_tpu
