// Makes a CPU build of PyTorch report one CUDA device, on which nothing is computed. The device guard
// and the hooks do nothing, and page-locked memory is ordinary memory.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <map>
#include <mutex>

namespace {

// Keeps a list of its allocations, so that Tensor.is_pinned() is true only for these.
struct PinnedAllocator final : c10::Allocator {
  static std::mutex mutex;
  static std::map<const char*, size_t> allocated;

  c10::DataPtr allocate(size_t size) override {
    void* data = c10::GetCPUAllocator()->raw_allocate(size);
    std::lock_guard<std::mutex> lock(mutex);
    allocated[static_cast<char*>(data)] = size;
    return {data, data, &release, c10::DeviceType::CPU};
  }
  static void release(void* data) {
    {
      std::lock_guard<std::mutex> lock(mutex);
      allocated.erase(static_cast<char*>(data));
    }
    c10::GetCPUAllocator()->raw_deallocate(data);
  }
  static bool holds(const void* data) {
    std::lock_guard<std::mutex> lock(mutex);
    auto after = allocated.upper_bound(static_cast<const char*>(data));
    if (after == allocated.begin()) return false;
    const auto& [begin, size] = *std::prev(after);
    return static_cast<const char*>(data) < begin + size;
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t size) const override {
    default_copy_data(to, from, size);
  }
};
std::mutex PinnedAllocator::mutex;
std::map<const char*, size_t> PinnedAllocator::allocated;
PinnedAllocator pinned;

struct Hooks final : at::CUDAHooksInterface {
  explicit Hooks(at::CUDAHooksArgs) {}
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasCUDA() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex current_device() const override { return 0; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex) const override { return 0; }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override { return 0; }
  void setCurrentDevice(c10::DeviceIndex) const override {}
  bool isPinnedPtr(const void* data) const override { return PinnedAllocator::holds(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned; }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    return at::detail::getDefaultCPUGenerator();
  }
};

constexpr auto CUDA = c10::DeviceType::CUDA;

struct Guard final : c10::impl::NoOpDeviceGuardImpl<CUDA> {
  c10::Device getDevice() const override { return {CUDA, 0}; }
  c10::Device exchangeDevice(c10::Device) const override { return {CUDA, 0}; }
  c10::Stream getStream(c10::Device device) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  c10::Stream exchangeStream(c10::Stream stream) const noexcept override { return stream; }
  void record(void**, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, c10::DeviceIndex) const noexcept override {}
};
c10::impl::DeviceGuardImplRegistrar registered(CUDA, new Guard());

}  // namespace

namespace at {
C10_REGISTER_CLASS(CUDAHooksRegistry, CUDAHooks, Hooks)
}
