// ImageBatches: what goes wrong once does not stay wrong.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <optional>
#include <stdexcept>
#include <utility>

#include "tests/support/temporary_folder.h"
#include "tests/train/small_training.h"

namespace sectionflow {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using namespace testing_support;

TEST(ImageBatches, ATransformThatThrowsOnceGivesTheSameBatchesAfterwards) {
  const LabeledImages images = synthetic_mnist({.train_size = 50, .test_size = 10}).train;
  for (const int prefetch : {0, 2}) {
    const auto batches_of = [&](std::function<void(Batch&)> transform) {
      return ImageBatches(images, {.batch = 16, .seed = 9, .transform = std::move(transform), .prefetch = prefetch});
    };
    ImageBatches whole = batches_of(nullptr);
    bool is_armed = true;
    ImageBatches failing = batches_of([&](Batch& batch) {
      if (batch.epoch == 1 && batch.index_in_epoch == 1 && std::exchange(is_armed, false)) {
        throw std::runtime_error("planted");
      }
    });
    int thrown = 0;
    for (int call = 0; call < 12; ++call) {
      const auto wanted = whole.next();
      std::optional<Example> got;
      try {
        got = failing.next();
      } catch (const std::runtime_error&) {
        ++thrown;
        EXPECT_THAT(failing.position(), testing::StartsWith("1 1|"));
        got = failing.next();
      }
      ASSERT_EQ(wanted.has_value(), got.has_value()) << call;
      if (!wanted) continue;
      EXPECT_TRUE(bitwise_equal(wanted->at("image"), got->at("image"))) << call;
      EXPECT_TRUE(bitwise_equal(wanted->at("label"), got->at("label"))) << call;
      EXPECT_EQ(whole.position(), failing.position());
    }
    EXPECT_EQ(thrown, 1);
  }
}

TEST(ImageBatches, GoOnFromNoPositionInAnotherOrder) {
  const LabeledImages images = synthetic_mnist({.train_size = 50, .test_size = 10}).train;
  const LabeledImages fewer = synthetic_mnist({.train_size = 48, .test_size = 10}).train;
  const BatchLoaderOptions options{.batch = 16, .seed = 9, .prefetch = 0};
  ImageBatches whole(images, options);
  for (int i = 0; i < 6; ++i) whole.next();
  const std::string position = whole.position();
  const auto next = whole.next();
  ASSERT_TRUE(next.has_value());
  const auto goes_on = [&](const LabeledImages& of, const BatchLoaderOptions& other, const std::string& from) {
    ImageBatches batches(of, other);
    batches.restore(from);
    return bitwise_equal(batches.next()->at("image"), next->at("image"));
  };
  EXPECT_TRUE(goes_on(images, options, position));
  EXPECT_TRUE(goes_on(images, options, position.substr(0, position.find('|')))) << "one of an earlier version";
  const auto refused = [&](const LabeledImages& of, BatchLoaderOptions other) {
    other.prefetch = 0;
    return whole_error_text<DataError>([&] { goes_on(of, other, position); });
  };
  EXPECT_THAT(refused(images, {.batch = 8, .seed = 9}), AllOf(HasSubstr("batches of 16"), HasSubstr("batches of 8")));
  EXPECT_THAT(refused(images, {.batch = 16, .seed = 8}), AllOf(HasSubstr("seed 9"), HasSubstr("seed 8")));
  EXPECT_THAT(refused(images, {.batch = 16, .shuffle = false}), HasSubstr("as they come"));
  EXPECT_THAT(refused(images, {.batch = 16, .seed = 9, .drop_remainder = true}), HasSubstr("whole ones"));
  EXPECT_THAT(refused(fewer, options), HasSubstr("48 images"));
}

/// While it lives, the system has no stack for a thread.
class NoMoreThreads {
 public:
  NoMoreThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t none;
    pthread_attr_init(&none);
    pthread_attr_setstacksize(&none, std::size_t{1} << 47);
    pthread_setattr_default_np(&none);
    pthread_attr_destroy(&none);
  }
  NoMoreThreads(const NoMoreThreads&) = delete;
  NoMoreThreads& operator=(const NoMoreThreads&) = delete;
  ~NoMoreThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }

 private:
  pthread_attr_t before_{};
};

TEST(RefusedThreads, AreTypedErrorsThatSayWhatToTry) {
  const LabeledImages images = synthetic_mnist({.train_size = 50, .test_size = 10}).train;
  const auto mapped = [&](int threads) {
    return Dataset::from(images)
        .map(MapFunction([](Example example, const MapContext&) { return example; }, "same"), {.threads = threads})
        .batch({.size = 10});
  };
  DatasetBatches on_threads(mapped(3)), ahead(mapped(1).prefetch());
  {
    const NoMoreThreads none;
    EXPECT_THAT(whole_error_text<DeviceError>([&] { ImageBatches refused(images, {.batch = 10}); }),
                AllOf(HasSubstr("SF-E500"), HasSubstr("a thread for a BatchLoader was refused"), HasSubstr("ulimit -u"),
                      HasSubstr("prefetch = 0")));
    EXPECT_THAT(whole_error_text<DeviceError>([&] { (void)on_threads.next(); }),
                AllOf(HasSubstr("for maps, the 1. of 3"), HasSubstr("MapOptions::threads")));
    EXPECT_THAT(whole_error_text<DeviceError>([&] { (void)ahead.next(); }),
                AllOf(HasSubstr("for prefetch"), HasSubstr("leave prefetch out")));
    EXPECT_TRUE(ImageBatches(images, {.batch = 10, .prefetch = 0}).next().has_value());
  }
  EXPECT_TRUE(on_threads.next().has_value());
  EXPECT_TRUE(ahead.next().has_value());
  EXPECT_TRUE(ImageBatches(images, {.batch = 10}).next().has_value());
}

}  // namespace
}  // namespace sectionflow
