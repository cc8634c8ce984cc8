// Sections that are placed by themselves, where a graph is built without a scope.

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "graph/op_def.h"
#include "runtime/check_feeds.h"
#include "sections/cut_search.h"
#include "sections/forward_places.h"
#include "sections/section_policies.h"
#include "sections/section_trainer.h"

namespace sectionflow {
namespace {

constexpr std::int64_t kUsualBatch = 32;
/// Borders that a note names.
constexpr std::size_t kNamedBorders = 8;

std::string note_of(const Graph& graph, const ForwardPlaces& places, const FoundCut& found) {
  std::string borders;
  const std::size_t named = std::min(kNamedBorders, found.borders.size());
  for (std::size_t i = 0; i < named; ++i) {
    const NodeId first = places.operations[static_cast<std::size_t>(found.borders[i])];
    borders += text_of(i == 0 ? "" : ", ", "'", graph.node(first).name(), "'");
  }
  if (named < found.borders.size()) borders += text_of(" and ", found.borders.size() - named, " more");
  if (borders.empty()) return "cuts: a single section";
  return text_of("cuts: ", found.borders.size() + 1, " sections, which begin at the first operation, and at ", borders);
}

}  // namespace

void SectionTrainer::place_cuts(const PlaceCutsOptions& options, Where where) {
  user_call(where, [&] {
    SF_CHECK(options.sections >= 0, ArgumentError, "place_cuts: ", options.sections, " sections; wanted at least 1",
             hint("0, or none said, has the budget decide"));
    SF_CHECK(options.batch >= 0, ArgumentError, "place_cuts: a batch of ", options.batch, "; wanted at least 1");
    SF_CHECK_CODE(sections_.empty(), ArgumentError, ErrorCode::cuts_and_scopes, "place_cuts: the manager has ",
                  sections_.size(), " sections already", earlier(sections_.empty() ? "" : sections_.front()->place()),
                  hint("leave one of the two out"));
    if (options.profile) check_profile(*options.profile, "place_cuts");
    for (const FeedType& feed : options.feeds) {
      SF_CHECK(feed.value.valid() && &feed.value.graph() == graph_, ArgumentError,
               "place_cuts: a feed does not belong to the graph of the section manager");
    }
    when_rolled_back([this, before = cuts_]() mutable { std::swap(cuts_, before); });
    cuts_ = {options, where};
  });
}

/// What a cycle is fed, as far as planning asks.
FeedTypes SectionTrainer::feeds_of_cycles() const {
  const PlaceCutsOptions& options = cuts_->options;
  FeedTypes feeds = options.feeds;
  for (NodeId id = 0; id < graph_->num_nodes(); ++id) {
    Node& node = graph_->node(id);
    const auto is_told = [&](const FeedType& feed) { return feed.value == node.output(); };
    if (!node.op().is_placeholder() || graph_->training_flag() == &node) continue;
    if (std::any_of(options.feeds.begin(), options.feeds.end(), is_told)) continue;
    const TensorType& type = node.output_types().front();
    if (type == (TensorType{Dtype::boolean, {}})) {
      feeds.emplace_back(node.output(), true);
      continue;
    }
    std::vector<std::int64_t> dims = type.shape.dims();
    for (std::int64_t& dim : dims) {
      if (dim != kDynamic) continue;
      SF_CHECK(options.batch > 0 || options.sections > 0, ArgumentError, "place_cuts: '", node.name(), "' is ",
               type.text(), ", and how much is fed decides what fits device memory", earlier(cuts_->at.text()),
               hint("say how many examples a batch has: PlaceCutsOptions::batch, or the shapes: feeds"));
      dim = options.batch > 0 ? options.batch : kUsualBatch;
    }
    feeds.emplace_back(node.output(), Shape(dims));
  }
  return feeds;
}

/// Finds the cut in the graph with its training operations, which are taken out again.
FoundCut SectionTrainer::found_cut(const ForwardPlaces& places, const UpdatesOf& updates, Value loss,
                                   const TrainingOptions& options) const {
  // Without what training adds, which sessions decide.
  const FeedTypes feeds = feeds_of_cycles();
  return graph_->tried([&] {
    const std::optional<Profile>& profile = cuts_->options.profile ? cuts_->options.profile : profile_;
    CutRequest request{.num_places = places.num_places(),
                       .place_of = places.place_of,
                       .first_group = graph_->num_groups(),
                       .loss = loss,
                       .training = {},
                       .profile = profile ? &*profile : nullptr,
                       .keeps_interiors = options.sections.interior == InteriorPolicy::keep ||
                                          options.sections.interior == InteriorPolicy::swap};
    // Gradients and updates take the group of what they belong to, and with it its place.
    std::vector<GroupId> groups;
    for (int i = 0; i < request.num_places; ++i) (void)graph_->new_group();
    for (int place : places.place_of) groups.push_back(place < 0 ? kNoGroup : request.first_group + place);
    graph_->set_groups(groups);
    request.training = updates(update_options(options)).operations;
    for (Operation update : graph_->operations(kUpdateOperations)) {
      if (std::find(request.training.begin(), request.training.end(), update) == request.training.end())
        request.training.push_back(update);
    }
    for (auto id = static_cast<NodeId>(request.place_of.size()); id < graph_->num_nodes(); ++id) {
      const GroupId group = graph_->node(id).group();
      request.place_of.push_back(group < request.first_group ? ForwardPlaces::kNowhere : group - request.first_group);
    }
    return tried_cuts(request, feeds, options);
  });
}

FoundCut SectionTrainer::tried_cuts(const CutRequest& request, const FeedTypes& feeds,
                                    const TrainingOptions& options) const {
  const int sections = cuts_->options.sections;
  Engine engine(*graph_, cuts_->options.session, cuts_->at);
  const Signature fed = signature_of(*graph_, feeds);
  if (sections > 0) {
    return cuts_of_kinds(engine, fed, request, "of so many sections",
                         [&](PlanningTools& tools) { return lowest_cut(*graph_, tools, request, sections); })
        .front();
  }
  std::vector<FoundCut> cuts = cuts_of_kinds(
      engine, fed, request, "that fit", [&](PlanningTools& tools) { return fitting_cut(*graph_, tools, request); });
  // Where each fits its own kind, and none the others, those do that take least.
  const bool others_decide = std::ranges::all_of(cuts, &FoundCut::fits);
  std::optional<Misfit> least;
  const auto fits = [&](const FoundCut& cut) {
    std::optional<Misfit> misfit = misfit_of(engine, fed, request, cut, options);
    if (misfit && (!least || misfit->least() < least->least())) least = misfit;
    return !misfit;
  };
  auto cut = std::ranges::find_if(cuts, fits);
  if (cut == cuts.end() && others_decide) {
    cuts = cuts_of_kinds(engine, fed, request, "of least memory",
                         [&](PlanningTools& tools) { return lowest_cut(*graph_, tools, request); });
    cut = std::ranges::find_if(cuts, fits);
  }
  if (cut == cuts.end()) throw_misfit(engine, *least, options);
  return *cut;
}

/// What `search` finds for each kind of micro-batch, that of the most memory first.
std::vector<FoundCut> SectionTrainer::cuts_of_kinds(Engine& engine, const Signature& fed, const CutRequest& request,
                                                    const std::string& which,
                                                    const std::function<FoundCut(PlanningTools&)>& search) const {
  const auto executed = [&] { return RunRequest{.fetches = {request.loss}, .targets = request.training}; };
  std::map<std::string, FoundCut> known;  // by signature: a cut changes the graph, and with it the key of its program
  (void)engine.fullest_program(fed, [&](const Signature& signature) -> Executable& {
    const std::string name = text_of("cuts ", which, " ", signature.text());
    return engine.program(name, signature, executed, [&](PlanningTools& tools) {
      const auto [here, is_new] = known.try_emplace(signature.text());
      if (is_new) here->second = search(tools);
      const FoundCut& cut = here->second;
      graph_->set_groups(groups_of_cut(request.place_of, cut.borders, request.first_group));
      return write_section_schedule(tools.graph(), cycle_of_cut(request, cut.borders.size() + 1)).list;
    });
  });
  std::vector<FoundCut> cuts;
  for (auto& [signature, cut] : known) cuts.push_back(std::move(cut));
  std::ranges::stable_sort(cuts, std::greater(),
                           [](const FoundCut& cut) { return std::pair(!cut.fits, cut.peak_bytes); });
  return cuts;
}

std::string SectionTrainer::other_way(const TrainingOptions& options) const {
  const SectionOptions& sections = options.sections;
  if (!cuts_->options.may_swap) return "allow what is too much to be offloaded (PlaceCutsOptions::may_swap)";
  if (sections.borders != BorderPolicy::automatic || !sections.tensors.empty() ||
      sections.interior == InteriorPolicy::keep) {
    return "let what is too much be offloaded (SectionOptions{.borders = BorderPolicy::automatic})";
  }
  return "have what the budget demands computed again and offloaded without sections (fit_budget(session))";
}

/// Of the cut in each kind of micro-batch; it was found for one of them.
std::optional<SectionTrainer::Misfit> SectionTrainer::misfit_of(Engine& engine, const Signature& signature,
                                                                const CutRequest& request, const FoundCut& found,
                                                                const TrainingOptions& options) const {
  graph_->set_groups(groups_of_cut(request.place_of, found.borders, request.first_group));
  const std::size_t num_sections = found.borders.size() + 1;
  const CyclePolicies policies{.sections = std::vector<SectionOptions>(num_sections, options.sections),
                               .outside = options.sections,
                               .profile = request.profile};
  const auto executed = [&] { return RunRequest{.fetches = {request.loss}, .targets = request.training}; };
  std::size_t kept = found.peak_bytes;
  const Engine::PlannedProgram fullest = engine.fullest_program(signature, [&](const Signature& each) -> Executable& {
    return engine.program("placed " + each.text(), each, executed, [&](PlanningTools& tools) {
      const CycleRequest cycle = cycle_of_cut(request, num_sections);
      InstructionList list = write_section_schedule(tools.graph(), cycle).list;
      kept = std::max(kept, tools.draft(list).device_peak_bytes);
      return cuts_->options.may_swap ? write_cycle(tools, cycle, policies) : std::move(list);
    });
  });
  if (fullest.report.fits) return std::nullopt;
  const std::size_t budget = engine.budgets().device, offloaded = fullest.report.planned_peak_bytes;
  Misfit misfit{.num_sections = num_sections,
                .kept_bytes = kept,
                .variables_bytes = fullest.report.persistent_bytes,
                .offloaded_bytes = {}};
  // What is offloaded brings nothing down where it is too much for host memory, or is to stay.
  if (cuts_->options.may_swap && offloaded > budget && offloaded < kept) {
    misfit.offloaded_bytes = offloaded;
    misfit.is_enough = fullest.report.minimum_is_enough;
  }
  return misfit;
}

void SectionTrainer::throw_misfit(const Engine& engine, const Misfit& misfit, const TrainingOptions& options) const {
  const std::size_t budget = engine.budgets().device;
  const auto exact = [](std::size_t bytes) { return text_of(bytes, " bytes (", bytes_text(bytes), ")"); };
  const std::string least = misfit.offloaded_bytes
                                ? text_of(misfit.is_enough ? "" : "at least ", exact(*misfit.offloaded_bytes),
                                          " with what can be offloaded and ", exact(misfit.kept_bytes), " without")
                                : exact(misfit.kept_bytes);
  throw BudgetError(
      error_text_of("place_cuts: no cut was found that fits device_memory of ", exact(budget), "; the lowest peak, ",
                    least, ", is of ", misfit.num_sections, misfit.num_sections == 1 ? " section" : " sections",
                    earlier(cuts_->at.text()),
                    hint("give that much, ", misfit.variables_bytes > budget
                                                 ? "or keep the variables, which alone are more, in host memory "
                                                   "(SessionOptions::swap_variables)"
                                                 : "take a smaller batch, or " + other_way(options))),
      budget, misfit.least(), ErrorCode::cuts_misfit);
}

/// Makes the sections that place_cuts was asked for, and has the nodes belong to them.
void SectionTrainer::make_placed_sections(const UpdatesOf& updates, Value loss, const TrainingOptions& options) {
  check_not_swapped();
  const ForwardPlaces places = forward_places(*graph_, loss);
  const int wanted = std::max(1, cuts_->options.sections);
  SF_CHECK_CODE(places.num_places() >= wanted, ArgumentError, ErrorCode::cuts_too_many, "place_cuts: ", wanted,
                wanted == 1 ? " section" : " sections", " of the ", places.num_places(), " operations of '",
                loss.name(), "'; wanted no more sections than operations", earlier(cuts_->at.text()),
                hint("ask for fewer"));
  const FoundCut found = found_cut(places, updates, loss, options);
  when_rolled_back([this] {
    sections_.clear();
    runs_.clear();
    cut_note_.clear();
  });
  const GroupId first_group = graph_->num_groups();
  const auto num_sections = static_cast<int>(found.borders.size()) + 1;
  for (int k = 0; k < num_sections; ++k) {
    std::string name = "section " + std::to_string(k);
    const GroupId group = graph_->new_group(name);
    sections_.emplace_back(new GraphSection(*this, *graph_, k, group, std::move(name), std::nullopt, cuts_->at));
  }
  runs_.resize(sections_.size());
  graph_->set_groups(groups_of_cut(places.place_of, found.borders, first_group));
  cut_note_ = note_of(*graph_, places, found);
}

}  // namespace sectionflow
