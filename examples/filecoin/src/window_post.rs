//! Window PoSt over small sectors: real trees on the disk, one sector and one challenge a partition.

use anyhow::Result;
use filecoin_hashers::poseidon::PoseidonHasher;
use filecoin_hashers::{Domain, HashFunction, Hasher};
use generic_array::typenum::{U0, U8};
use rand::RngCore;
use storage_proofs_core::api_version::ApiVersion;
use storage_proofs_core::compound_proof::{CompoundProof, SetupParams};
use storage_proofs_core::merkle::{LCTree, generate_tree};
use storage_proofs_core::proof::ProofScheme;
use storage_proofs_core::util::NODE_SIZE;
use storage_proofs_post::fallback::{
    self, ChallengeRequirements, FallbackPoSt, FallbackPoStCircuit, FallbackPoStCompound,
    PrivateInputs, PrivateSector, PublicInputs, PublicSector,
};

use crate::statement::Statement;

type Tree = LCTree<PoseidonHasher, U8, U0, U0>;
type Node = <PoseidonHasher as Hasher>::Domain;
type Hash = <PoseidonHasher as Hasher>::Function;

/// Leaves of a sector: one row of a tree of arity 8, the least that Filecoin's trees have.
const LEAVES: usize = 8;

/// A proof of so many partitions over as many sectors of random data.
///
/// # Errors
/// If the trees cannot be written to the system's folder for temporary files.
pub fn statement(
    partitions: usize,
    rng: &mut impl RngCore,
) -> Result<Statement<FallbackPoStCircuit<Tree>>> {
    let setup = SetupParams {
        vanilla_params: fallback::SetupParams {
            sector_size: (LEAVES * NODE_SIZE) as u64,
            challenge_count: 1,
            sector_count: 1,
            api_version: ApiVersion::V1_2_0,
        },
        partitions: Some(partitions),
        priority: false,
    };
    let folder = tempfile::tempdir()?;
    let trees: Vec<_> = (0..partitions)
        .map(|_| generate_tree::<Tree, _>(rng, LEAVES, Some(folder.path().to_owned())).1)
        .collect();
    let private_sector =
        |tree| PrivateSector { tree, comm_c: Node::random(rng), comm_r_last: tree.root() };
    let private: Vec<PrivateSector<'_, Tree>> = trees.iter().map(private_sector).collect();
    let public_sector = |(id, sector): (usize, &PrivateSector<'_, Tree>)| PublicSector {
        id: (id as u64).into(),
        comm_r: Hash::hash2(&sector.comm_c, &sector.comm_r_last),
    };
    let public_inputs = PublicInputs {
        randomness: Node::random(rng),
        prover_id: Node::random(rng),
        sectors: private.iter().enumerate().map(public_sector).collect(),
        k: None,
    };
    let public_params = FallbackPoStCompound::<Tree>::setup(&setup)?;
    let vanilla_proofs = FallbackPoSt::<Tree>::prove_all_partitions(
        &public_params.vanilla_params,
        &public_inputs,
        &PrivateInputs { sectors: &private },
        partitions,
    )?;
    Statement::new::<FallbackPoStCompound<Tree>, FallbackPoSt<'static, Tree>>(
        "window-post",
        public_params,
        public_inputs,
        &vanilla_proofs,
        ChallengeRequirements { minimum_challenge_count: partitions },
    )
}
