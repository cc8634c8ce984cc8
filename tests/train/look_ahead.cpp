// What comes next, shown where it is made already, and taken by nobody who looks.

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>
#include <thread>

#include "data/batch_loader.h"
#include "data/dataset.h"
#include "data/synthetic.h"
#include "tests/support/data_examples.h"
#include "train/batch_source.h"

namespace sectionflow {
namespace {

/// Where the bytes of each tensor lie that `look` is shown, once it is shown any; nothing after a while.
template <class Look>
std::map<std::string, const std::byte*> shown(const Look& look) {
  std::map<std::string, const std::byte*> places;
  for (int attempt = 0; places.empty() && attempt < 2000; ++attempt) {
    look([&](const std::string& name, const HostTensor& tensor) { places[name] = tensor.bytes(); });
    if (places.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return places;
}

std::map<std::string, const std::byte*> places_of(const Example& example) {
  std::map<std::string, const std::byte*> places;
  for (const auto& [name, tensor] : example) places[name] = tensor.bytes();
  return places;
}

int count_shown(const auto& looked_at) {
  int count = 0;
  looked_at.look_ahead([&](const std::string&, const HostTensor&) { ++count; });
  return count;
}

TEST(LookAhead, ShowsTheBatchThatAPrefetchHasMade) {
  DatasetIterator iterator = numbers(14).batch({.size = 4, .pad = true}).prefetch().iterate();
  EXPECT_EQ(count_shown(iterator), 0) << "nothing is made before the first call";
  ASSERT_TRUE(iterator.next());
  for (int left = 3; left > 0; --left) {
    const std::string position = iterator.position();
    const auto places = shown([&](const LookAtTensor& look) { iterator.look_ahead(look); });
    EXPECT_EQ(iterator.position(), position);
    const auto batch = iterator.next();
    ASSERT_TRUE(batch);
    EXPECT_EQ(places_of(*batch), places);
  }
  EXPECT_FALSE(iterator.next());
  EXPECT_EQ(count_shown(iterator), 0);
}

TEST(LookAhead, ShowsNothingThatNoThreadHasMade) {
  DatasetIterator iterator = numbers(14).prefetch().batch({.size = 4, .pad = true}).iterate();
  ASSERT_TRUE(iterator.next());
  EXPECT_EQ(count_shown(iterator), 0);
  FunctionBatches function([](std::int64_t, std::int64_t) { return Example(); });
  (void)function.next();
  EXPECT_EQ(count_shown(function), 0);
}

TEST(LookAhead, ShowsTheBatchOfLabelledImages) {
  const LabeledImages images = synthetic_mnist({.train_size = 22, .test_size = 10}).train;
  ImageBatches batches(images, {.batch = 8, .seed = 3});
  for (int call = 0; call < 8; ++call) {
    const auto places = shown([&](const LookAtTensor& look) { batches.look_ahead(look); });
    auto batch = batches.next();
    // A pass ends with nothing; what was shown is the first batch of the next one.
    if (!batch) batch = batches.next();
    ASSERT_TRUE(batch);
    EXPECT_EQ(places_of(*batch), places) << call;
  }
  ImageBatches alone(images, {.batch = 8, .prefetch = 0});
  ASSERT_TRUE(alone.next());
  EXPECT_EQ(count_shown(alone), 0);
}

}  // namespace
}  // namespace sectionflow
