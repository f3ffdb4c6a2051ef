// Package watchdog finds deliveries that GitHub recorded and the store does not have, and asks
// GitHub to send them again.
//
// It never writes a delivery: what it asks for comes in by the receiver, under the same GUID, and
// deduplicates there. One pass over one source:
//
//	lease → cursor → what has arrived → read the history → judge → save → ask again, at a pace
//
// GitHub's history has one row for each attempt, newest first. A pass reads it down to the
// watermark: everything delivered before that was judged by an earlier pass. Where the page limit
// ends a pass first, the cursor keeps the page at which the next one goes on, and the watermark
// stays. It moves only to where the finished reading began, and never past the grace boundary nor
// past the newest row that was there, so that two clocks which disagree lose nothing.
//
// A delivery is missing when the store has no row of that source for its GUID. Judging the same
// rows twice does no harm, so every page that was read is judged, also when a later one failed.
package watchdog
