#pragma once

namespace sectionflow {

/// How a report looks. Dark on white on every screen, since it is printed as it is seen.
inline constexpr const char* kReportStyle = R"css(
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 16px; max-width: 1240px; background: #fff; color: #1f2328;
       font: 16px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif; }
h1 { font-size: 1.5rem; line-height: 1.2; margin: 0 0 4px; }
h2 { font-size: 1.15rem; margin: 28px 0 8px; }
h3 { font-size: 1.05rem; margin: 0 0 2px; overflow-wrap: anywhere; }
p { margin: 4px 0; }
.quiet { color: #57606a; font-size: 0.92rem; }
.scroll { overflow-x: auto; -webkit-overflow-scrolling: touch; margin: 8px 0; border: 1px solid #d0d7de;
          border-radius: 6px; width: fit-content; max-width: 100%; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; white-space: nowrap; font-size: 0.88rem; }
th, td { padding: 5px 9px; text-align: right; border-bottom: 1px solid #eaeef2; }
thead th { background: #f6f8fa; border-bottom: 1px solid #d0d7de; font-weight: 600; }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0; background: #fff; font-weight: 600; }
thead th:first-child { background: #f6f8fa; }
tr:last-child td { border-bottom: 0; }
tr.remark td { text-align: left; color: #a40e0e; font-weight: 400; padding-top: 0; white-space: normal; }
tr.remark td div { max-width: min(72ch, 82vw); position: sticky; left: 10px; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 16px; padding: 0; margin: 8px 0; list-style: none;
          font-size: 0.92rem; }
.legend svg { width: 22px; height: 14px; vertical-align: -2px; margin-right: 6px; }
.pictures { display: grid; gap: 20px; grid-template-columns: repeat(auto-fit, minmax(min(100%, 370px), 1fr)); }
figure { margin: 0; padding: 12px; border: 1px solid #d0d7de; border-radius: 6px; break-inside: avoid; }
figure svg { display: block; width: 100%; height: auto; margin-top: 8px;
             font: 11.5px system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif; }
.misfit { color: #a40e0e; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 4px 14px; font-size: 0.92rem; }
dt { font-weight: 600; }
dd { margin: 0; }
@media (max-width: 600px) { body { padding: 12px; } dl { grid-template-columns: 1fr; } dd { margin-bottom: 6px; } }
@media print {
  @page { margin: 12mm; }
  body { padding: 0; max-width: none; font-size: 10pt; }
  .scroll { overflow: visible; border: 0; }
  table { font-size: 6.6pt; white-space: normal; }
  th, td { padding: 2px 4px; }
  th:first-child, td:first-child, tr.remark td div { position: static; }
  .pictures { grid-template-columns: 1fr 1fr; gap: 10px; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
)css";

}  // namespace sectionflow
