//! The suite, seen to fail: which check notices which fault, and with what words.

use super::*;

/// Checks that take a moment, which every fault but those named must let pass.
const QUICK: &[Check] = &[
    Check::alloc_is_zeroed,
    Check::copies_stay_in_place,
    Check::adopted_data_are_the_same,
    Check::leases_limit_buffers,
    Check::tables_cost_what_the_query_says,
    Check::queries_are_pure,
    Check::operations_lease_nothing,
    Check::expand_matches_values,
    Check::matvec_matches_rows,
    Check::ntt_matches_definition,
    Check::quotient_matches_formulas,
    Check::msm_ranges_g1,
    Check::msm_ranges_g2,
];

/// The check that must notice a fault, a part of what it says then, and the other quick checks that
/// may fail. The match has no wildcard: a new fault needs a check that sees it.
fn expectation(fault: Fault) -> (Check, &'static str, Vec<Check>) {
    use Check::*;
    let reads = [
        adopted_data_are_the_same,
        expand_matches_values,
        matvec_matches_rows,
        ntt_matches_definition,
        quotient_matches_formulas,
    ];
    let (check, says, others): (_, _, &[Check]) = match fault {
        Fault::AllocDirty => (alloc_is_zeroed, "is not zero", &[]),
        Fault::AllocUncharged => (
            leases_limit_buffers,
            "alloc of 126 words: granted beyond the lease",
            &[tables_cost_what_the_query_says],
        ),
        // All that allocate have bytes leased at the end.
        Fault::AllocNeverReturned => (
            leases_limit_buffers,
            "the bytes of a dropped buffer",
            &[
                alloc_is_zeroed,
                copies_stay_in_place,
                operations_lease_nothing,
                expand_matches_values,
                matvec_matches_rows,
                ntt_matches_definition,
                quotient_matches_formulas,
                msm_ranges_g1,
                msm_ranges_g2,
            ],
        ),
        Fault::AllocChargesRefused => (
            leases_limit_buffers,
            "adoption of 126 words: what the refusal says",
            &[tables_cost_what_the_query_says],
        ),
        Fault::AdoptUncharged => {
            (leases_limit_buffers, "adoption of 126 words: granted beyond the lease", &[])
        }
        Fault::AdoptDropsLast => (
            adopted_data_are_the_same,
            "1 adopted elements",
            &[
                expand_matches_values,
                matvec_matches_rows,
                operations_lease_nothing,
                msm_ranges_g1,
                msm_ranges_g2,
            ],
        ),
        Fault::UploadOffByOne => (copies_stay_in_place, "after an upload", &[]),
        Fault::UploadPads => (copies_stay_in_place, "after an upload", &[]),
        Fault::DownloadOffByOne => {
            (copies_stay_in_place, "download of", &[adopted_data_are_the_same])
        }
        Fault::DownloadZeroed => (copies_stay_in_place, "after an upload", &reads),
        Fault::DownloadStale => {
            (copies_stay_in_place, "after an upload", &[&reads[..], &[alloc_is_zeroed]].concat())
        }

        Fault::TableOvercharged => (
            tables_cost_what_the_query_says,
            "table for log_n 1",
            &[operations_lease_nothing, ntt_matches_definition],
        ),
        Fault::QueryLeases => (
            queries_are_pure,
            "bytes leased by queries",
            &[operations_lease_nothing, msm_ranges_g1, msm_ranges_g2],
        ),
        Fault::ScratchFalls => (queries_are_pure, "scratch on G1 falls", &[]),
        Fault::ScratchTooSmallG1 => (
            msm_lengths_g1,
            "an MSM on G1 was given scratch",
            &[msm_ranges_g1, operations_lease_nothing],
        ),
        Fault::ScratchTooSmallG2 => {
            (msm_lengths_g2, "an MSM on G2 was given scratch", &[msm_ranges_g2])
        }
        Fault::MatvecLeases => (operations_lease_nothing, "after matvec", &[]),
        Fault::ExpandLeases => (operations_lease_nothing, "after expand", &[]),
        Fault::NttLeases => (operations_lease_nothing, "after ntt", &[]),
        Fault::QuotientLeases => (operations_lease_nothing, "after quotient", &[]),
        Fault::MsmLeases => (operations_lease_nothing, "after msm", &[]),

        Fault::ExpandLosesSign => (expand_matches_values, "Set, mix 0", &[]),
        Fault::ExpandMisplacesWide => (expand_matches_values, "Set, mix ", &[]),
        Fault::ExpandKeepsTail => (expand_matches_values, "Set, mix 0, 0 elements", &[]),
        Fault::ExpandSets => (expand_matches_values, "Multiply, mix", &[]),

        Fault::MatvecDropsLastEntry => (matvec_matches_rows, "Set, ", &[]),
        Fault::MatvecDropsDuplicates => (matvec_matches_rows, "Set, ", &[]),
        Fault::MatvecLosesSign => (matvec_matches_rows, "Set, ", &[]),
        Fault::MatvecKeepsTail => (matvec_matches_rows, "Set, 0 rows", &[]),
        Fault::MatvecSets => (matvec_matches_rows, "Multiply, ", &[]),

        Fault::InterpolateOrder => (ntt_matches_definition, "Interpolate, log_n 2", &[]),
        Fault::InterpolateScale => (ntt_matches_definition, "Interpolate, log_n 1", &[]),
        Fault::InterpolateDomain => (ntt_matches_definition, "Interpolate, log_n 1", &[]),
        Fault::EvaluateOrder => (ntt_matches_definition, "Evaluate, log_n 2", &[]),
        Fault::EvaluateScale => (ntt_matches_definition, "Evaluate, log_n 1", &[]),
        Fault::EvaluateDomain => (ntt_matches_definition, "Evaluate, log_n 1", &[]),
        Fault::InterpolateOddOrder => (ntt_matches_definition, "InterpolateOdd, log_n 2", &[]),
        Fault::InterpolateOddScale => (ntt_matches_definition, "InterpolateOdd, log_n 1", &[]),
        Fault::InterpolateOddDomain => (ntt_matches_definition, "InterpolateOdd, log_n 1", &[]),
        Fault::EvaluateOddOrder => (ntt_matches_definition, "EvaluateOdd, log_n 2", &[]),
        Fault::EvaluateOddScale => (ntt_matches_definition, "EvaluateOdd, log_n 1", &[]),
        Fault::EvaluateOddDomain => (ntt_matches_definition, "EvaluateOdd, log_n 1", &[]),
        Fault::NttLargeSwapsLast => (ntt_matches_samples, "log_n 13", &[]),

        Fault::ProductDropsLast => (quotient_matches_formulas, "Product, ", &[]),
        Fault::DifferenceNegated => (quotient_matches_formulas, "Difference, ", &[]),
        Fault::HalfDifferenceNotHalved => (quotient_matches_formulas, "HalfDifference, ", &[]),

        Fault::MsmDensityG1 => (msm_densities_g1, "density only the last", &[]),
        Fault::MsmDensityG2 => (msm_densities_g2, "density only the last", &[]),
        Fault::MsmOffsetG1 => (msm_ranges_g1, "range 1..150", &[]),
        Fault::MsmOffsetG2 => (msm_ranges_g2, "range 1..150", &[]),
        Fault::MsmSignG1 => (msm_scalars_g1, "all r - 1", &[msm_ranges_g1]),
        Fault::MsmSignG2 => (msm_scalars_g2, "all r - 1", &[msm_ranges_g2]),
        Fault::MsmTopBitG1 => (msm_scalars_g1, "all r - 1", &[msm_ranges_g1]),
        Fault::MsmTopBitG2 => (msm_scalars_g2, "all r - 1", &[msm_ranges_g2]),
        Fault::MsmFirstBaseG1 => (msm_lengths_g1, "G1 sum of 1 bases", &[msm_ranges_g1]),
        Fault::MsmFirstBaseG2 => (msm_lengths_g2, "G2 sum of 1 bases", &[msm_ranges_g2]),
        Fault::MsmLastBaseG1 => (msm_lengths_g1, "G1 sum of 1 bases", &[msm_ranges_g1]),
        Fault::MsmLastBaseG2 => (msm_lengths_g2, "G2 sum of 1 bases", &[msm_ranges_g2]),
        Fault::MsmInfinityG1 => (msm_bases_g1, "infinity", &[]),
        Fault::MsmInfinityG2 => (msm_bases_g2, "infinity", &[]),
        Fault::MsmDoublingG1 => (msm_bases_g1, "bases all equal", &[]),
        Fault::MsmDoublingG2 => (msm_bases_g2, "bases all equal", &[]),
        Fault::MsmCancellingG1 => (msm_bases_g1, "P and -P", &[]),
        Fault::MsmCancellingG2 => (msm_bases_g2, "P and -P", &[]),

        Fault::RaisedScratchFalls => (queries_are_pure, "scratch falls", &[]),
        Fault::RaiseLeases => (operations_lease_nothing, "after raise", &[]),
        Fault::RaiseLastG1 => (raise_matches_multiples_g1, "copy 1 of base 0", &[]),
        Fault::RaiseLastG2 => (raise_matches_multiples_g2, "copy 1 of base 0", &[]),
        Fault::RaiseInfinityG1 => (raise_matches_multiples_g1, "copy 1 of base 2", &[]),
        Fault::RaiseInfinityG2 => (raise_matches_multiples_g2, "copy 1 of base 2", &[]),
        Fault::RaiseLateG1 => (raise_matches_multiples_g1, "copy 1 of base 0", &[]),
        Fault::RaiseLateG2 => (raise_matches_multiples_g2, "copy 1 of base 0", &[]),
        Fault::RaisedTopG1 => (raised_sums_g1, "G1 sum of 1 bases raised for", &[]),
        Fault::RaisedTopG2 => (raised_sums_g2, "G2 sum of 1 bases raised for", &[]),
        Fault::RaisedCopyG1 => (raised_parts_g1, "range 0..150", &[]),
        Fault::RaisedCopyG2 => (raised_parts_g2, "range 0..150", &[]),

        Fault::MultiplesLease => (operations_lease_nothing, "after multiples", &[]),
        Fault::MultiplesOffsetG1 => (multiples_lengths_g1, "G1 multiples by 1 scalars", &[]),
        Fault::MultiplesOffsetG2 => (multiples_lengths_g2, "G2 multiples by 1 scalars", &[]),
        Fault::MultiplesLastG1 => (multiples_lengths_g1, "by 1 scalars", &[]),
        Fault::MultiplesLastG2 => (multiples_lengths_g2, "by 1 scalars", &[]),
        Fault::MultiplesPadG1 => (multiples_lengths_g1, "stands behind the results", &[]),
        Fault::MultiplesPadG2 => (multiples_lengths_g2, "stands behind the results", &[]),
        Fault::MultiplesTopBitG1 => (multiples_scalars_g1, "windows of 2 bits", &[]),
        Fault::MultiplesTopBitG2 => (multiples_scalars_g2, "windows of 2 bits", &[]),
    };
    (check, says, others.to_vec())
}

/// The message that `check` panics with, if it does.
fn failure<B: Backend>(check: Check, backend: &B) -> Option<String> {
    let panic = catch_unwind(AssertUnwindSafe(|| check.run(backend))).err()?;
    let message = panic.downcast_ref::<String>().cloned();
    Some(message.unwrap_or_else(|| panic.downcast_ref::<&str>().unwrap_or(&"").to_string()))
}

#[test]
fn every_fault_is_noticed() {
    let mut unseen = Check::ALL.to_vec();
    for fault in Fault::ALL {
        let spoiled = || Faulty::new(Cpu::open(), Some(*fault));
        let (check, says, others) = expectation(*fault);
        match failure(check, &spoiled()) {
            None => panic!("{fault:?} passes {check:?}"),
            Some(message) => {
                assert!(message.contains(says), "{fault:?}: {check:?} says {message}, not {says}");
            }
        }
        for spared in QUICK.iter().filter(|quick| **quick != check && !others.contains(quick)) {
            let failure = failure(*spared, &spoiled());
            assert!(failure.is_none(), "{fault:?} fails {spared:?} too: {failure:?}");
        }
        unseen.retain(|unseen| *unseen != check);
    }
    // No fault is for these alone: see `common/faulty.rs` on the first, and the next test.
    assert_eq!(unseen, [Check::joined_streams_keep_order, Check::proofs_equal_the_fixtures]);
}

#[test]
fn a_proof_needs_every_operation() {
    for fault in [
        Fault::AdoptDropsLast,
        Fault::ExpandSets,
        Fault::MatvecSets,
        Fault::InterpolateScale,
        Fault::InterpolateOddOrder,
        Fault::EvaluateOddDomain,
        Fault::ProductDropsLast,
        Fault::DifferenceNegated,
        Fault::HalfDifferenceNotHalved,
        Fault::MsmDensityG1,
        Fault::MsmDensityG2,
        Fault::MsmOffsetG1,
        Fault::MsmLastBaseG1,
        Fault::MsmLastBaseG2,
    ] {
        let spoiled = Faulty::new(Cpu::open(), Some(fault));
        let failure = failure(Check::proofs_equal_the_fixtures, &spoiled);
        assert!(failure.is_some(), "a proof is right in spite of {fault:?}");
    }
}
