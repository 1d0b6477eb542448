// Bool and byte masks in advanced indexing: their positions are found on the device and counted on the host.
#include <ATen/ATen.h>

#include "shim.h"

namespace torch_tpu {

bool is_index_with_masks(const std::string& base) {
  return base == "aten::index" || base == "aten::_unsafe_index" || base == "aten::index_put" || base == "aten::index_put_" ||
      base == "aten::_index_put_impl_" || base == "aten::_index_put_impl" || base == "aten::_unsafe_index_put";
}

void expand_masks(const std::string& base, c10::IValue* arguments, size_t count) {
  const at::Tensor& self = arguments[0].toTensor();
  const auto given = arguments[1].toListRef();
  size_t masks = 0;
  size_t defined = 0;
  bool host = false;
  for (const c10::IValue& item : given) {
    if (item.isTensor() && item.toTensor().defined()) {
      const at::Tensor& index = item.toTensor();
      defined += 1;
      masks += index.scalar_type() == c10::kBool || index.scalar_type() == c10::kByte;
      host = host || index.device().is_cpu();
    }
  }
  if (masks == 0 && !host) {
    return;
  }
  // One mask and one value: the program selects, without asking the host.
  const bool put = base != "aten::index" && base != "aten::_unsafe_index";
  const bool accumulate = put && count > 3 && arguments[3].toBool();
  const bool select = masks == 1 && defined == 1 && put && !accumulate && arguments[2].toTensor().numel() == 1;
  c10::List<std::optional<at::Tensor>> expanded;
  int64_t axis = 0;
  for (const c10::IValue& item : given) {
    if (!item.isTensor() || !item.toTensor().defined()) {
      expanded.push_back(std::nullopt);
      axis += 1;
      continue;
    }
    at::Tensor index = item.toTensor();
    if (index.device().is_cpu()) {
      // PyTorch takes index tensors from the CPU: the host can check these.
      if (index.numel() > 0 && index.scalar_type() != c10::kBool && index.scalar_type() != c10::kByte && axis < self.dim()) {
        const int64_t size = self.size(axis);
        const int64_t low = index.min().item<int64_t>();
        const int64_t high = index.max().item<int64_t>();
        TORCH_CHECK_INDEX(
            low >= -size && high < size, "index ", high >= size ? high : low, " is out of bounds for dimension ", axis, " with size ",
            size);
      }
      index = index.to(self.device());
    }
    const bool mask = index.scalar_type() == c10::kBool || index.scalar_type() == c10::kByte;
    if (!mask) {
      expanded.push_back(index);
      axis += 1;
      continue;
    }
    for (int64_t own = 0; own < index.dim(); ++own) {
      TORCH_CHECK_INDEX(
          axis + own < self.dim() && index.size(own) == self.size(axis + own), "The shape of the mask ", index.sizes(), " at index ",
          own, " does not match the shape of the indexed tensor ", self.sizes(), " at index ", axis + own);
    }
    if (select) {
      expanded.push_back(index.to(c10::kBool));
      axis += index.dim();
      continue;
    }
    const at::Tensor positions = index.nonzero();
    for (int64_t own = 0; own < index.dim(); ++own) {
      expanded.push_back(positions.select(1, own));
      axis += 1;
    }
  }
  arguments[1] = c10::IValue(std::move(expanded));
}

}  // namespace torch_tpu
