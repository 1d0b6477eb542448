// One boxed functor per overload: the IValue stack becomes records, one call into Rust, the results become tensors.
#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/Resize.h>
#include <c10/core/DefaultDtype.h>
#include <torch/library.h>

#include <unordered_map>

#include "generator.h"
#include "shim.h"

namespace torch_tpu {
namespace {

enum Tag : uint8_t { kNone, kTensor, kNumber, kList, kIntegers, kFloats, kText, kGenerator };

ArgumentRecord none_record() {
  ArgumentRecord record{};
  record.tag = kNone;
  return record;
}

ArgumentRecord float_record(double value, uint8_t category = 2, c10::ScalarType dtype = c10::ScalarType::Double) {
  ArgumentRecord record{};
  record.tag = kNumber;
  record.flags = 2;
  record.category = category;
  record.dtype = static_cast<uint8_t>(dtype);
  std::memcpy(&record.word, &value, sizeof value);
  return record;
}

ArgumentRecord integer_record(int64_t value, uint8_t category = 2, c10::ScalarType dtype = c10::ScalarType::Long) {
  ArgumentRecord record{};
  record.tag = kNumber;
  record.flags = 1;
  record.category = category;
  record.dtype = static_cast<uint8_t>(dtype);
  record.word = static_cast<uint64_t>(value);
  return record;
}

ArgumentRecord bool_record(bool value, uint8_t category = 2) {
  ArgumentRecord record = integer_record(value, category, c10::ScalarType::Bool);
  record.flags = 0;
  return record;
}

ArgumentRecord complex_record(
    c10::complex<double> value, uint8_t category = 2, c10::ScalarType dtype = c10::ScalarType::ComplexDouble) {
  ArgumentRecord record = float_record(value.real(), category, dtype);
  const double imaginary = value.imag();
  record.flags = 3;
  std::memcpy(&record.extra, &imaginary, sizeof imaginary);
  return record;
}

// A 0-d CPU tensor: any operator takes it as a number.
ArgumentRecord cpu_scalar_record(const at::Tensor& tensor) {
  const uint8_t category = tensor.unsafeGetTensorImpl()->is_wrapped_number() ? 2 : 1;
  const auto dtype = tensor.scalar_type();
  const void* data = tensor.is_conj() || tensor.is_neg() ? nullptr : tensor.const_data_ptr();
  if (data != nullptr) {
    switch (dtype) {
      case c10::ScalarType::Double:
        return float_record(*static_cast<const double*>(data), category, dtype);
      case c10::ScalarType::Float:
        return float_record(*static_cast<const float*>(data), category, dtype);
      case c10::ScalarType::Long:
        return integer_record(*static_cast<const int64_t*>(data), category, dtype);
      case c10::ScalarType::Bool:
        return bool_record(*static_cast<const bool*>(data), category);
      default:
        break;
    }
  }
  const c10::Scalar value = tensor.item();
  if (value.isComplex()) {
    return complex_record(value.toComplexDouble(), category, dtype);
  }
  if (value.isFloatingPoint()) {
    return float_record(value.toDouble(), category, dtype);
  }
  if (value.isBoolean()) {
    return bool_record(value.toBool(), category);
  }
  if (dtype == c10::ScalarType::UInt64) {
    return integer_record(static_cast<int64_t>(value.toUInt64()), category, dtype);
  }
  return integer_record(value.toLong(), category, dtype);
}

[[noreturn]] void wrong_device(const at::Tensor& tensor) {
  TORCH_CHECK(
      false, "Expected all tensors to be on the same device, but found at least two devices, ",
      c10::Device(kDevice, static_cast<c10::DeviceIndex>(current_device())), " and ", tensor.device(),
      "! Move the tensors to one device with .to()");
}

// The records of one call, with the tensors and copies that they point to.
class Records {
 public:
  c10::SmallVector<ArgumentRecord, 16> records;
  // For each record: the tensor it was made of, if any.
  c10::SmallVector<const at::Tensor*, 16> tensors;

  void add(const c10::IValue& value, bool written) {
    if (value.isTensor()) {
      add_tensor(value.toTensor(), written);
    } else if (value.isNone() || value.isDevice()) {
      push(none_record());
    } else if (value.isInt()) {
      push(integer_record(value.toInt()));
    } else if (value.isDouble()) {
      push(float_record(value.toDouble()));
    } else if (value.isBool()) {
      push(bool_record(value.toBool()));
    } else if (value.isSymInt() || value.isSymFloat() || value.isSymBool()) {
      push(integer_record(value.toSymInt().guard_int(__FILE__, __LINE__)));
    } else if (value.isComplexDouble()) {
      push(complex_record(value.toComplexDouble()));
    } else if (value.isString()) {
      const std::string& text = value.toStringRef();
      pointer_record(kText, text.data(), text.size());
    } else if (value.isGenerator()) {
      add_generator(value.toGenerator());
    } else if (value.isIntList()) {
      const auto list = value.toIntList();
      const size_t first = integers.size();
      for (const int64_t item : list) {
        integers.push_back(item);
      }
      offset_record(kIntegers, first, list.size());
    } else if (value.isBoolList()) {
      const auto list = value.toBoolList();
      const size_t first = integers.size();
      for (const bool item : list) {
        integers.push_back(item);
      }
      offset_record(kIntegers, first, list.size());
    } else if (value.isDoubleList()) {
      const auto list = value.toDoubleList();
      const size_t first = floats.size();
      for (const double item : list) {
        floats.push_back(item);
      }
      offset_record(kFloats, first, list.size());
    } else if (value.isList()) {
      const auto list = value.toListRef();
      ArgumentRecord header{};
      header.tag = kList;
      header.count = static_cast<uint32_t>(list.size());
      push(header);
      for (const c10::IValue& item : list) {
        add(item, written);
      }
    } else {
      TORCH_CHECK_NOT_IMPLEMENTED(false, "an argument of type ", value.tagKind(), " is not supported on this device");
    }
  }

  void add_tensor(const at::Tensor& tensor, bool written) {
    if (!tensor.defined()) {
      push(none_record());
    } else if (C10_LIKELY(tensor.device().type() == kDevice)) {
      records.push_back(tensor_record(*tensor.unsafeGetTensorImpl()));
      tensors.push_back(&tensor);
    } else if (tensor.device().is_cpu() && tensor.dim() == 0 && !written) {
      push(cpu_scalar_record(tensor));
    } else {
      wrong_device(tensor);
    }
  }

  void push(const ArgumentRecord& record) {
    records.push_back(record);
    tensors.push_back(nullptr);
  }

  // Pointers into the copies, once nothing is added any more.
  rust::Slice<const ArgumentRecord> finish() {
    for (ArgumentRecord& record : records) {
      if (record.tag == kIntegers) {
        record.word = reinterpret_cast<uint64_t>(integers.data() + record.word);
      } else if (record.tag == kFloats) {
        record.word = reinterpret_cast<uint64_t>(floats.data() + record.word);
      }
    }
    return {records.data(), records.size()};
  }

 private:
  c10::SmallVector<int64_t, 32> integers;
  c10::SmallVector<double, 8> floats;

  void offset_record(Tag tag, size_t first, size_t count) {
    ArgumentRecord record{};
    record.tag = tag;
    record.count = static_cast<uint32_t>(count);
    record.word = first;
    push(record);
  }

  void pointer_record(Tag tag, const void* data, size_t count) {
    ArgumentRecord record{};
    record.tag = tag;
    record.count = static_cast<uint32_t>(count);
    record.word = reinterpret_cast<uint64_t>(data);
    push(record);
  }

  void add_generator(const at::Generator& generator);
};

// The results of this thread's last call into Rust; kept to save the allocation.
thread_local rust::Vec<TensorRecord> results;

uint64_t context(bool precision) {
  uint64_t word = static_cast<uint64_t>(c10::get_default_dtype_as_scalartype());
  if (precision) {
    word |= static_cast<uint64_t>(at::globalContext().float32MatmulPrecision()) << 8;
  }
  return word;
}

// Calls Rust; resizes out= tensors and calls again when it asks for that.
void run(uint64_t overload, bool precision, Records& arguments) {
  const auto slice = arguments.finish();
  uint8_t status = call(overload, context(precision), slice, results);
  if (C10_UNLIKELY(status == kResize)) {
    for (const TensorRecord& wanted : results) {
      const at::Tensor& out = *arguments.tensors[wanted.argument];
      at::native::resize_output(out, c10::IntArrayRef(wanted.sizes, wanted.rank));
      arguments.records[wanted.argument] = tensor_record(*out.unsafeGetTensorImpl());
    }
    status = call(overload, context(precision), {arguments.records.data(), arguments.records.size()}, results);
    TORCH_CHECK(status != kResize, "an out= tensor could not be resized; please report this as a bug");
  }
  check(status);
}

class Functor final : public c10::OperatorKernel {
 public:
  Functor(uint64_t overload, const c10::FunctionSchema& schema) : overload_(overload), precision_(overload_flags(overload) & 1) {
    for (const auto& argument : schema.arguments()) {
      written_.push_back(argument.alias_info() != nullptr && argument.alias_info()->isWrite());
    }
    masks_ = is_index_with_masks(schema.name());
    base_ = schema.name();
    list_result_ = schema.returns().size() == 1 && schema.returns()[0].type()->kind() == c10::TypeKind::ListType;
  }

  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack) {
    const size_t count = written_.size();
    c10::IValue* arguments = stack->data() + (stack->size() - count);
    if (masks_) {
      expand_masks(base_, arguments, count);
    }
    Records records;
    for (size_t index = 0; index < count; ++index) {
      records.add(arguments[index], written_[index]);
    }
    run(overload_, precision_, records);

    c10::SmallVector<c10::IValue, 4> outputs;
    if (list_result_) {
      c10::List<at::Tensor> list;
      list.reserve(results.size());
      for (const TensorRecord& record : results) {
        list.push_back(output(record, records));
      }
      outputs.emplace_back(std::move(list));
    } else {
      for (const TensorRecord& record : results) {
        outputs.emplace_back(output(record, records));
      }
    }
    torch::jit::drop(*stack, count);
    for (c10::IValue& value : outputs) {
      stack->emplace_back(std::move(value));
    }
  }

 private:
  uint64_t overload_;
  bool precision_;
  bool masks_ = false;
  bool list_result_ = false;
  std::string base_;
  c10::SmallVector<bool, 8> written_;

  static at::Tensor output(const TensorRecord& record, const Records& records) {
    switch (record.kind) {
      case 1:
        return new_tensor(record);
      case 2:
        return *records.tensors[record.argument];
      default:
        return at::Tensor();
    }
  }
};

// Overload handles by "name.overload", for the kernels written by hand.
std::unordered_map<std::string, uint64_t>& handles() {
  static std::unordered_map<std::string, uint64_t> map;
  return map;
}

}  // namespace

void Records::add_generator(const at::Generator& generator) {
  TORCH_CHECK(
      generator.device().type() == kDevice, "Expected a '", c10::DeviceTypeName(kDevice, true), "' device type for generator but found '",
      generator.device().type(), "'");
  ArgumentRecord record{};
  record.tag = kGenerator;
  record.word = static_cast<Generator*>(generator.unsafeGetGeneratorImpl())->handle();
  push(record);
}

// A pointer without its handle stands for the storage that its address lies in.
static void find_foreign_storage(const c10::TensorImpl& tensor, ArgumentRecord& record) {
  const auto address = reinterpret_cast<uint64_t>(tensor.unsafe_storage().data_ptr().get());
  uint64_t offset_bytes = 0;
  record.word = find_storage(address, offset_bytes);
  const uint64_t item = tensor.dtype().itemsize();
  TORCH_CHECK(offset_bytes % item == 0, "the pointer does not begin at an element of the storage that it lies in");
  record.offset += static_cast<int64_t>(offset_bytes / item);
}

// Element types of src/dtype.rs, by their c10 code.
bool is_supported(c10::ScalarType dtype) {
  using enum c10::ScalarType;
  switch (dtype) {
    case Byte: case Char: case Short: case Int: case Long: case Half: case Float: case Double: case ComplexFloat: case ComplexDouble:
    case Bool: case BFloat16: case Float8_e5m2: case Float8_e4m3fn: case UInt16: case UInt32: case UInt64:
      return true;
    default:
      return false;
  }
}

ArgumentRecord tensor_record(const c10::TensorImpl& tensor) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      is_supported(c10::typeMetaToScalarType(tensor.dtype())), "dtype ", c10::typeMetaToScalarType(tensor.dtype()),
      " is not supported on this device; convert the tensor on the CPU first, for instance with .to(torch.float32)");
  ArgumentRecord record{};
  record.tag = kTensor;
  record.dtype = static_cast<uint8_t>(c10::typeMetaToScalarType(tensor.dtype()));
  record.flags = static_cast<uint8_t>(
      (tensor.key_set().has(c10::DispatchKey::Conjugate) ? 1 : 0) | (tensor.key_set().has(c10::DispatchKey::Negative) ? 2 : 0));
  const auto sizes = tensor.sizes();
  record.count = static_cast<uint32_t>(sizes.size());
  record.word = own_handle(tensor);
  record.offset = tensor.storage_offset();
  if (C10_UNLIKELY(record.word == 0)) {
    find_foreign_storage(tensor, record);
  }
  record.sizes = sizes.data();
  record.strides = tensor.strides().data();
  return record;
}

at::Tensor new_tensor(const TensorRecord& record) {
  const auto device = static_cast<c10::DeviceIndex>(record.device);
  auto storage = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), static_cast<size_t>(record.bytes),
      data_pointer({record.storage, record.address}, device), device_allocator(), /*resizable=*/true);
  auto tensor = at::detail::make_tensor_base<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(kKey), c10::scalarTypeToTypeMeta(static_cast<c10::ScalarType>(record.dtype)));
  const c10::IntArrayRef sizes(record.sizes, record.rank);
  const c10::IntArrayRef strides(record.strides, record.rank);
  if (C10_UNLIKELY(record.count >= 0)) {
    auto cut = sizes.vec();
    cut[0] = record.count;
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(cut, strides);
  } else {
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  }
  return tensor;
}

uint64_t overload_handle(const char* name, const char* overload) {
  const auto found = handles().find(std::string(name) + "." + overload);
  TORCH_CHECK(found != handles().end(), "the operator table has no entry for ", name, "; please report this as a bug");
  return found->second;
}

void call_writing(const char* name, const char* overload, at::TensorList tensors, size_t trailing_none) {
  Records records;
  bool first = true;
  for (const at::Tensor& tensor : tensors) {
    records.add_tensor(tensor, first);
    first = false;
  }
  for (size_t index = 0; index < trailing_none; ++index) {
    records.push(bool_record(false));
  }
  run(overload_handle(name, overload), false, records);
}

void install_boxed() {
  static torch::Library library(torch::Library::IMPL, "aten", kKey, __FILE__, __LINE__);
  auto& dispatcher = c10::Dispatcher::singleton();
  std::vector<c10::OperatorHandle> candidates;
  rust::Vec<rust::String> schemas;
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0) {
      continue;
    }
    const auto handle = dispatcher.findSchema(name);
    // PyTorch decomposes implicit composites together with their gradient; a kernel here would drop it.
    if (!handle || handle->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) ||
        handle->hasKernelForDispatchKey(kKey)) {
      continue;
    }
    bool usable = true;
    size_t lists = 0;
    for (const auto& result : handle->schema().returns()) {
      const auto kind = result.type()->kind();
      lists += kind == c10::TypeKind::ListType;
      usable = usable && (kind == c10::TypeKind::TensorType || kind == c10::TypeKind::ListType);
    }
    if (!usable || lists > 1 || (lists == 1 && handle->schema().returns().size() > 1)) {
      continue;
    }
    candidates.push_back(*handle);
    schemas.push_back(rust::String(c10::toString(handle->schema())));
  }
  const auto overloads = register_schemas({schemas.data(), schemas.size()});
  for (size_t index = 0; index < candidates.size(); ++index) {
    if (overloads[index] == 0) {
      continue;
    }
    const auto& name = candidates[index].operator_name();
    handles()[name.name + "." + name.overload_name] = overloads[index];
    if (name.name == "aten::copy_" || name.name == "aten::_local_scalar_dense") {
      continue;  // between devices: copy.cc
    }
    const std::string qualified = name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
    library.impl(
        qualified.c_str(),
        torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Functor>(overloads[index], candidates[index].schema())));
  }
}

}  // namespace torch_tpu
