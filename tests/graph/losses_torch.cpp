// Losses and gradients beside those of PyTorch 2.15 in double precision, reduction "none", of the same numbers.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "graph/losses.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/reduce.h"
#include "tests/graph/losses_case.h"

namespace sectionflow::loss_case {
namespace {

using namespace testing_support;

/// What torch.nn.functional gives, with the gradients of the losses' sum to the first inputs.
struct TorchCase {
  const char* name;
  std::vector<Fed> inputs;
  BuildLoss build;
  Doubles losses;
  std::vector<Doubles> gradients;
};

const Fed kLogits = numbers({-2.5F, -0.5F, 0.25F, 1, 3, -40}), kTargets = numbers({0, 1, 1, 0.25F, 0, 1});
const Fed kMask = numbers({0, 1, 1, 0, 0, 1}), kSigns = numbers({1, -1, 1, 1, -1, -1});
const Fed kGuesses = numbers({-2.5F, -0.5F, 0.25F, 1, 3, 0.125F}), kTruths = numbers({0.5F, -0.5F, 0.5F, -1, -4, 0});
const Fed kLogQ = numbers({2, 3}, {-0.5F, -1, -2, -3, -0.25F, -4});
const Fed kP = numbers({2, 3}, {0.5F, 0.5F, 0, 0.25F, 0.625F, 0.125F});
const Fed kLogP = numbers({2, 3}, {-0.75F, -1.5F, -2, -1, -0.5F, -5});
const Fed kA = numbers({2, 3}, {1, 2, -1, 0.5F, 0.25F, -3}), kB = numbers({2, 3}, {0.5F, -1, 2, 1, 1.5F, -0.5F});
const Fed kC = numbers({2, 3}, {1, 1.5F, -0.5F, -1, 2, 0.25F});
const Fed kRows = numbers({4, 3}, {1, 2, 3, 0.5F, -1, 0.25F, -2, 4, 0, 1.5F, -0.5F, 2.5F});
const Fed kLabels = class_numbers({4}, {0, 2, -100, 1}), kOtherLabels = class_numbers({4}, {0, 2, 1, 1});
const Fed kClassWeights = numbers({0.5F, 1, 2});

const TorchCase kTorchCases[] = {
    {"binary_cross_entropy_with_logits",
     {kLogits, kTargets},
     [](const auto& in) { return binary_cross_entropy_with_logits(in[0], in[1]); },
     {0.07888973429254964, 0.9740769841801067, 0.5759394198788436, 1.0632616875182228, 3.048587351573742, 40.0},
     {{0.07585818002124355, -0.6224593312018546, -0.43782349911420193, 0.4810585786300049, 0.9525741268224334, -1.0}}},
    {"binary_cross_entropy_with_logits, pos_weight=3",
     {kLogits, kTargets},
     [](const auto& in) { return binary_cross_entropy_with_logits(in[0], in[1], {.positive_weight = 3}); },
     {0.07888973429254964, 2.9222309525403203, 1.7278182596365306, 1.2198925312773343, 3.048587351573742, 120.0},
     {{0.07585818002124355, -1.867377993605564, -1.313470497342606, 0.3465878679450074, 0.9525741268224334, -3.0}}},
    {"torchvision.ops.sigmoid_focal_loss, by its formula",
     {kLogits, kMask},
     [](const auto& in) { return focal_loss(in[0], in[1]); },
     {0.0003404760709713772, 0.09435290021485244, 0.02760037281621379, 0.5264012275585388, 2.074710330768947, 10.0},
     {{0.0009566886964971716, -0.13153795546864577, -0.05201409478121608, 0.5761760423994883, 0.845062410476166,
       -0.2500000000000001}}},
    {"l1_loss",
     {kGuesses, kTruths},
     [](const auto& in) { return absolute_error(in[0], in[1]); },
     {3.0, 0, 0.25, 2.0, 7.0, 0.125},
     {{-1.0, 0, -1.0, 1.0, 1.0, 1.0}}},
    {"mse_loss",
     {kGuesses, kTruths},
     [](const auto& in) { return squared_error(in[0], in[1]); },
     {9.0, 0, 0.0625, 4.0, 49.0, 0.015625},
     {{-6.0, 0, -0.5, 4.0, 14.0, 0.25}}},
    {"huber_loss, delta=1.5",
     {kGuesses, kTruths},
     [](const auto& in) { return huber_loss(in[0], in[1], {.delta = 1.5F}); },
     {3.375, 0, 0.03125, 1.875, 9.375, 0.0078125},
     {{-1.5, 0, -0.25, 1.5, 1.5, 0.125}}},
    {"smooth_l1_loss, beta=1.5",
     {kGuesses, kTruths},
     [](const auto& in) { return huber_loss(in[0], in[1], {.delta = 1.5F}) / 1.5F; },
     {2.25, 0, 0.020833333333333332, 1.25, 6.25, 0.005208333333333333},
     {{-1.0, 0, -0.16666666666666666, 1.0, 1.0, 0.08333333333333333}}},
    {"log(cosh(input - target))",
     {kGuesses, kTruths},
     [](const auto& in) { return log_cosh_loss(in[0], in[1]); },
     {2.309328504577785, 0, 0.030929803620161386, 1.3250027473578645, 6.306853650968428, 0.007792239318898281},
     {{-0.9950547536867305, 0, -0.24491866240370913, 0.964027580075817, 0.9999983369439447, 0.12435300177159621}}},
    {"margin_ranking_loss of the scores and 0, margin=1",
     {kGuesses, kSigns},
     [](const auto& in) { return hinge_loss(in[0], in[1]); },
     {3.5, 0.5, 0.75, 0, 4.0, 1.125},
     {{-1.0, 1.0, -1.0, 0, 1.0, 1.0}}},
    {"kl_div, summed over classes",
     {kLogQ, kP},
     [](const auto& in) { return kl_divergence(in[0], in[1]); },
     {0.056852819440054714, 0.5059939487314631},
     {{-0.5, -0.5, 0, -0.25, -0.625, -0.125}}},
    {"kl_div, log_target=True, summed over classes",
     {kLogQ, kLogP},
     [](const auto& in) { return kl_divergence(in[0], in[1], {.log_targets = true}); },
     {-0.2296567182594686, 0.5773882704156409},
     {{-0.4723665527410147, -0.22313016014842982, -0.1353352832366127, -0.36787944117144233, -0.6065306597126334,
       -0.006737946999085467},
      {0.354274914555761, 0.11156508007421491, 0.1353352832366127, 1.103638323514327, 0.45489799478447507, 0}}},
    {"cosine_similarity, dim=-1",
     {kA, kB},
     [](const auto& in) { return cosine_similarity(in[0], in[1]); },
     {-0.6236095644623236, 0.4160029869352167},
     {{0.19302200804786213, 0.029695693545825047, 0.2524133951395119, 0.15282342155161618, 0.25157086316958355,
       0.04643480885606803},
      {0.2375655483665995, 0.2375655483665995, 0.0593913870916499, -0.03127842007031707, -0.13449720630236334,
       -0.4660484590477239}}},
    {"cosine_similarity, dim=0",
     {kA, kB},
     [](const auto& in) { return cosine_similarity(in[0], in[1], {.axis = 0}); },
     {0.7999999999999999, -0.4472135954999579, -0.07669649888473709},
     {{-0.23999999999999994, -0.055041673292302445, 0.29911634565047446, 0.48, 0.44033338633842023,
       -0.09970544855015814},
      {0.48, 0.4128125496922689, -0.11730052770606841, -0.23999999999999994, 0.27520836646151264,
       -0.4692021108242737}}},
    {"cosine_embedding_loss, margin=0.25",
     {kA, kB, numbers({1, -1})},
     [](const auto& in) { return cosine_embedding_loss(in[0], in[1], in[2], {.margin = 0.25F}); },
     {1.6236095644622122, 0.16600298693513488},
     {{-0.19302200804781028, -0.029695693545785024, -0.25241339513948413, 0.1528234215515885, 0.25157086316953525,
       0.046434808856044466},
      {-0.23756554836654575, -0.23756554836657964, -0.059391387091594056, -0.031278420070276924, -0.13449720630228587,
       -0.46604845904764924}}},
    {"triplet_margin_loss, eps=0",
     {kA, kB, kC},
     [](const auto& in) { return triplet_margin_loss(in[0], in[1], in[2]); },
     {4.564895091472217, 0},
     {{0.11704114719613057, -0.004859898009764052, 0.004859898009764052, 0, 0, 0},
      {-0.11704114719613057, -0.7022468831767834, 0.7022468831767834, 0, 0, 0},
      {0, 0.7071067811865475, -0.7071067811865475, 0, 0, 0}}},
    {"triplet_margin_loss, eps=0, swap=True",
     {kA, kB, kC},
     [](const auto& in) { return triplet_margin_loss(in[0], in[1], in[2], {.swap = true}); },
     {4.564895091472217, 1.6457130760521061},
     {{0.11704114719613057, -0.004859898009764052, 0.004859898009764052, -0.17609018126512477, -0.4402254531628119,
       -0.8804509063256238},
      {-0.11704114719613057, -0.7022468831767834, 0.7022468831767834, -0.7355944304119788, 0.6681466060820878,
       1.2223326357045377},
      {0, 0.7071067811865475, -0.7071067811865475, 0.9116846116771036, -0.2279211529192759, -0.3418817293789138}}},
    {"cross_entropy",
     {kRows, kLabels},
     [](const auto& in) { return cross_entropy(in[0], in[1]); },
     {2.4076059644443806, 0.9441121864019144, 0, 3.3490122167681866},
     {{-0.9099694268296196, 0.24472847105479764, 0.6652409557748218, 0.4995177298132149, 0.11145747105020275,
       -0.6109752008634178, 0, 0, 0, 0.2594964603424191, -0.9648809730406602, 0.7053845126982411}}},
    {"cross_entropy, weight=w, label_smoothing=0.125",
     {kRows, kLabels, kClassWeights},
     [](const auto& in) { return cross_entropy(in[0], in[1], {.label_smoothing = 0.125F, .class_weights = in[2]}); },
     {1.196103479259222, 1.8367543533869626, 0, 3.127116637950857},
     {{-0.4058154989839447, 0.10109160811529863, 0.3047238908686461, 0.9261690294375532, 0.1696381221993427,
       -1.0958071516368963, 0, 0, 0, 0.24406930326621945, -0.8808159933123406, 0.636746690046121}}},
};

TEST(LossesOfPyTorch, AndTheirGradientsAreTheSame) {
  for (const TorchCase& one : kTorchCases) {
    std::vector<std::size_t> differentiated;
    for (std::size_t i = 0; i < one.gradients.size(); ++i) differentiated.push_back(i);
    const Found found = found_of(one.build, one.inputs, differentiated);
    SCOPED_TRACE(one.name);
    expect_near(found.losses, one.losses, 4, 2 * kF32Epsilon);
    for (const std::size_t i : differentiated) expect_near(found.gradients[i], one.gradients[i], 4, 4 * kF32Epsilon);
  }
}

/// The mean as the comment of cross_entropy says, and its gradient to kRows.
Found mean_of_rows(const Fed& labels, const std::vector<float>& weights, std::int64_t ignored, float smoothing) {
  return found_of(
      [=](const auto& in) {
        const CrossEntropyOptions options{
            .ignore_index = ignored, .label_smoothing = smoothing, .class_weights = weights.empty() ? Value() : in[2]};
        const Value losses = cross_entropy(in[0], in[1], options);
        return weighted_mean(losses, label_weights(in[1], options), {.is_weighted = true});
      },
      {kRows, labels, numbers(weights)});
}

TEST(LossesOfPyTorch, AreAveragedAsItsMeanDoes) {
  struct Mean {
    Fed labels;
    std::vector<float> weights;
    std::int64_t ignored;
    float smoothing;
    double loss, first_slope;
  };
  const std::vector<float> weights = {0.5F, 1, 2}, not_of_the_first = {0, 1, 2};
  for (const Mean& mean : {Mean{kLabels, {}, -100, 0, 2.233576789204827, -0.30332314227653984},
                           {kLabels, weights, -100, 0, 1.84029702051263, -0.12999563240423137},
                           {kLabels, {}, -100, 0.125F, 2.1363545669826047, -0.2755453644987621},
                           {kLabels, weights, -100, 0.125F, 1.7599927058848692, -0.11594728542398422},
                           // A label of weight 0 is spread over the others all the same.
                           {kLabels, not_of_the_first, -100, 0.125F, 1.671307770609108, 0.0037512738820991848},
                           {kOtherLabels, weights, 1, 0, 1.2368109420104076, -0.18199388536592392}}) {
    const Found found = mean_of_rows(mean.labels, mean.weights, mean.ignored, mean.smoothing);
    expect_near(found.losses, {mean.loss}, 4);
    expect_near({found.gradients[0][0]}, {mean.first_slope}, 8);
  }
  // PyTorch's is NaN.
  EXPECT_EQ(mean_of_rows(class_numbers({4}, {7, 7, 7, 7}), weights, 7, 0).losses, Doubles{0});
}

}  // namespace
}  // namespace sectionflow::loss_case
