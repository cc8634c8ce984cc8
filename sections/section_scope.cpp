// Opening and closing sections.

#include <exception>
#include <utility>

#include "base/error.h"
#include "sections/noted_options.h"
#include "sections/section_trainer.h"

namespace sectionflow {

SectionScope::SectionScope(SectionTrainer& trainer, GraphSection& section, GraphScope group)
    : trainer_(&trainer), section_(&section), group_(std::move(group)), exceptions_(std::uncaught_exceptions()) {}

SectionScope::SectionScope(SectionScope&& other) noexcept
    : trainer_(std::exchange(other.trainer_, nullptr)),
      section_(other.section_),
      group_(std::move(other.group_)),
      exceptions_(other.exceptions_) {}

SectionScope::~SectionScope() {
  // A section that was taken out with its graph's change is open no more.
  if (trainer_ == nullptr || trainer_->open_ != section_) return;
  trainer_->open_ = nullptr;
  section_->broken_ = std::uncaught_exceptions() > exceptions_;
}

void SectionTrainer::check_new_section(const std::string& name) const {
  SF_CHECK_CODE(!prepared_, ArgumentError, ErrorCode::late_section, "new_section('", name,
                "') after prepare_training()", earlier("prepare_training(), ", prepared_at_.text()),
                hint("make all sections before it"));
  SF_CHECK_CODE(!cuts_, ArgumentError, ErrorCode::cuts_and_scopes, "new_section('", name,
                "') after place_cuts(), which places all sections", earlier(cuts_ ? cuts_->at.text() : ""),
                hint("leave one of the two out"));
  SF_CHECK_CODE(open_ == nullptr, ArgumentError, ErrorCode::nested_section, "new_section('", name,
                "') inside section '", open_->name(), "'; sections do not nest", earlier(open_->place()),
                hint("end the scope of the first before"));
  for (const auto& other : sections_) {
    SF_CHECK_CODE(other->name() != name, ArgumentError, ErrorCode::duplicate_section, "new_section('", name,
                  "'): section ", other->index(), " has that name already", earlier(other->place()),
                  hint("take another name, or none"));
  }
}

SectionScope SectionTrainer::new_section(std::string name, std::optional<SectionOptions> options, Where where) {
  return user_call(where, [&] {
    const std::string number = "section " + std::to_string(sections_.size());
    const std::string label = name.empty() ? number : number + " '" + name + "'";
    if (name.empty()) name = number;
    check_new_section(name);
    if (options) check_options(text_of("new_section('", name, "')"), *options);
    const int index = static_cast<int>(sections_.size());
    sections_.reserve(sections_.size() + 1);
    runs_.reserve(runs_.size() + 1);
    return graph_->all_or_nothing([&] {
      const GroupId group = graph_->new_group(label);
      std::unique_ptr<GraphSection> section(
          new GraphSection(*this, *graph_, index, group, std::move(name), std::move(options), where));
      when_rolled_back([this, index] {
        open_ = nullptr;
        // It may not have come to be.
        if (static_cast<int>(sections_.size()) > index) sections_.pop_back();
        if (static_cast<int>(runs_.size()) > index) runs_.pop_back();
      });
      if (section->options_) note_options(*graph_, group, *section->options_);
      auto entered = graph_->enter_group(group);
      // From here on nothing throws.
      runs_.emplace_back();
      sections_.push_back(std::move(section));
      open_ = sections_.back().get();
      return SectionScope(*this, *open_, std::move(entered));
    });
  });
}

}  // namespace sectionflow
