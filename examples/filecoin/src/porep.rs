//! PoRep of a sector of 256 bytes, sealed in two layers: the smallest that the circuit allows, and 1,199,642 rows a
//! partition all the same, since a label is the SHA-256 of 37 parents.

use anyhow::Result;
use blstrs::Scalar;
use ff::{Field, PrimeField};
use filecoin_hashers::poseidon::PoseidonHasher;
use filecoin_hashers::sha256::Sha256Hasher;
use generic_array::typenum::{U0, U8};
use rand::RngCore;
use storage_proofs_core::api_version::ApiVersion;
use storage_proofs_core::compound_proof::{CompoundProof, SetupParams};
use storage_proofs_core::drgraph::BASE_DEGREE;
use storage_proofs_core::merkle::DiskTree;
use storage_proofs_core::proof::ProofScheme;
use storage_proofs_core::test_helper::setup_replica;
use storage_proofs_porep::stacked::{
    self, ChallengeRequirements, Challenges, EXP_DEGREE, PrivateInputs, PublicInputs,
    StackedCircuit, StackedCompound, StackedDrg, TemporaryAuxCache,
};

use crate::statement::Statement;

type Tree = DiskTree<PoseidonHasher, U8, U0, U0>;
type Compound = StackedCompound<Tree, Sha256Hasher>;

/// Rows of a partition, those of its inputs among them.
pub const ROWS: usize = 1_199_642;
/// Nodes of 32 bytes in the sector.
const NODES: usize = 8;
/// A 32 GiB sector has 11.
const LAYERS: usize = 2;
/// For each partition; a 32 GiB sector has 18.
const CHALLENGES: usize = 1;

/// Seals a sector of random data, and proves it in so many partitions.
///
/// # Errors
/// If the replica cannot be written to the system's folder for temporary files, or the graph to
/// `FIL_PROOFS_PARENT_CACHE` (`/var/tmp/filecoin-parents`), where storage-proofs keeps it.
pub fn statement(
    partitions: usize,
    rng: &mut impl RngCore,
) -> Result<Statement<StackedCircuit<Tree, Sha256Hasher>>> {
    let setup = SetupParams {
        vanilla_params: stacked::SetupParams {
            nodes: NODES,
            degree: BASE_DEGREE,
            expansion_degree: EXP_DEGREE,
            porep_id: [55; 32],
            challenges: Challenges::new_interactive(CHALLENGES),
            num_layers: LAYERS,
            api_version: ApiVersion::V1_2_0,
            api_features: Vec::new(),
        },
        partitions: Some(partitions),
        priority: false,
    };
    let public_params = Compound::setup(&setup)?;
    let params = &public_params.vanilla_params;

    let folder = tempfile::tempdir()?;
    let replica = folder.path().join("replica");
    let data: Vec<u8> = (0..NODES).flat_map(|_| Scalar::random(&mut *rng).to_repr()).collect();
    let mut data = setup_replica(&data, &replica);
    let replica_id = Scalar::random(&mut *rng).into();
    let (labels, _) =
        StackedDrg::<Tree, Sha256Hasher>::replicate_phase1(params, &replica_id, folder.path())?;
    let (tau, (p_aux, t_aux)) = StackedDrg::<Tree, Sha256Hasher>::replicate_phase2(
        params,
        labels,
        data.as_mut().into(),
        None,
        folder.path().to_owned(),
        replica.clone(),
    )?;

    let mut seed = [0; 32];
    rng.fill_bytes(&mut seed);
    let public_inputs = PublicInputs { replica_id, seed: Some(seed), tau: Some(tau), k: None };
    let t_aux = TemporaryAuxCache::new(&t_aux, replica, false)?;
    let vanilla_proofs = StackedDrg::<Tree, Sha256Hasher>::prove_all_partitions(
        params,
        &public_inputs,
        &PrivateInputs { p_aux, t_aux },
        partitions,
    )?;
    Statement::new::<Compound, StackedDrg<'static, Tree, Sha256Hasher>>(
        "porep",
        public_params,
        public_inputs,
        &vanilla_proofs,
        ChallengeRequirements { minimum_challenges: partitions * CHALLENGES },
    )
}
