//! bellperson's own functions, by its names and in its argument order, over an [`Engine`]: whoever called bellperson changes an import.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::SystemTime;

use blst::{blst_fp2, blst_p1_affine, blst_p2_affine};
use blstrs::{G1Affine, G2Affine};
use rayon::prelude::*;

use crate::backend::bit_reverse;
use crate::curve::{self, Affine, Coordinate};
use crate::engine::{Devices, Engine, Options};
use crate::field::{Fp, Fp2};
use crate::format::Silent;
use crate::format::bellman::Shape;
use crate::format::points::{Encoding, encode};
use crate::key::{
    Basis, Check, CheckedKeys, Density, LoadedKey, ProvingKey, Query, VerifyingKey, load_key,
};
use crate::{Error, Result};

static ENGINE: Mutex<Option<Arc<Engine>>> = Mutex::new(None);

/// The engine of these functions: what [`use_engine`] was given last, or one on the fastest devices that are there, which is started at
/// the first call and kept.
///
/// # Errors
/// Those of [`Devices::fastest`] and [`Engine::new`].
pub fn engine() -> Result<Arc<Engine>> {
    let mut engine = ENGINE.lock().unwrap_or_else(PoisonError::into_inner);
    match &*engine {
        Some(engine) => Ok(engine.clone()),
        None => {
            let new = Arc::new(Engine::new(Devices::fastest()?, Options::default())?);
            Ok(engine.insert(new).clone())
        }
    }
}

/// Has these functions use `engine` from now on, which is how to choose a backend.
pub fn use_engine(engine: Arc<Engine>) {
    *ENGINE.lock().unwrap_or_else(PoisonError::into_inner) = Some(engine);
}

/// The same point: both are affine and Montgomery, and infinity is all zero.
fn g1(point: &G1Affine) -> curve::G1Affine {
    let blst_p1_affine { x, y } = point.as_ref();
    Affine([Fp(x.l), Fp(y.l)])
}

/// The same point.
fn g2(point: &G2Affine) -> curve::G2Affine {
    let blst_p2_affine { x, y } = point.as_ref();
    Affine([x, y].map(|blst_fp2 { fp: [c0, c1] }| Fp2::new(Fp(c0.l), Fp(c1.l))))
}

/// The bytes of a point, as bellperson reads them.
fn encoded<F: Coordinate, const BYTES: usize>(point: &Affine<F>) -> [u8; BYTES] {
    let mut bytes = Vec::with_capacity(BYTES);
    encode(point, Encoding::Zcash, &mut bytes);
    bytes.try_into().expect("the length of an uncompressed point")
}

/// bellperson's parameters: points of blstrs, whatever version holds them.
struct Points<'a> {
    vk: VerifyingKey,
    beta_g1: curve::G1Affine,
    delta_g1: curve::G1Affine,
    /// H, L, A and B.
    in_g1: [&'a Arc<Vec<G1Affine>>; 4],
    b_g2: &'a Arc<Vec<G2Affine>>,
}

/// Points that were taken over. While these pointers are held no other vector can be where they point.
struct Known {
    in_g1: [Weak<Vec<G1Affine>>; 4],
    b_g2: Weak<Vec<G2Affine>>,
    key: Arc<ProvingKey>,
}

impl Points<'_> {
    /// The key; no point is checked.
    fn key(&self) -> Result<ProvingKey> {
        let Self { vk, beta_g1, delta_g1, in_g1: [h, l, a, b_g1], b_g2 } = self;
        if vk.ic.is_empty() {
            return Err(Error::invalid("IC", "no points", "at least that of the constant 1"));
        }
        let b = [b_g1.len(), b_g2.len()];
        let Shape { inputs, log_n, .. } = Shape::new(vk.ic.len(), h.len(), l.len(), a.len(), b)?;
        let query =
            |points: &[G1Affine]| Query { points: points.iter().map(g1).collect(), density: None };
        // The last coefficient, whose index is all ones, would stand last.
        let h: Vec<_> =
            (0..h.len()).into_par_iter().map(|j| g1(&h[bit_reverse(j, log_n)])).collect();
        Ok(ProvingKey {
            log_n,
            inputs,
            variables: inputs + l.len(),
            basis: Basis::Coefficients,
            vk: vk.clone(),
            beta_g1: *beta_g1,
            delta_g1: *delta_g1,
            a: query(a),
            b_g1: query(b_g1),
            b_g2: Query { points: b_g2.iter().map(g2).collect(), density: None },
            l: Query { density: Some(Density::full(l.len())), ..query(l) },
            h: h.into(),
            matrices: None,
        })
    }

    /// The key, made once as long as someone has these points.
    fn kept_key(&self) -> Result<Arc<ProvingKey>> {
        static KNOWN: Mutex<Vec<Known>> = Mutex::new(Vec::new());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|known| known.in_g1.iter().all(|points| points.strong_count() > 0));
        if let Some(known) = known.iter().find(|known| self.same_as(known)) {
            return Ok(known.key.clone());
        }
        let key = Arc::new(self.key()?);
        let (in_g1, b_g2) = (self.in_g1.map(Arc::downgrade), Arc::downgrade(self.b_g2));
        known.push(Known { in_g1, b_g2, key: key.clone() });
        Ok(key)
    }

    fn same_as(&self, Known { in_g1, b_g2, key }: &Known) -> bool {
        let mut in_g1 = in_g1.iter().zip(self.in_g1);
        in_g1.all(|(known, points)| known.as_ptr() == Arc::as_ptr(points))
            && b_g2.as_ptr() == Arc::as_ptr(self.b_g2)
            && (&key.vk, key.beta_g1, key.delta_g1) == (&self.vk, self.beta_g1, self.delta_g1)
    }
}

/// A key's file when it was loaded.
#[derive(PartialEq)]
struct File {
    path: PathBuf,
    bytes: u64,
    modified: Option<SystemTime>,
}

/// Keys of files that were loaded last, so that the next proof finds them, on the device too.
static LOADED: Mutex<Vec<(File, Arc<ProvingKey>)>> = Mutex::new(Vec::new());

/// Keys of files that are kept: those that a prover of several circuits uses in turn.
const KEPT: usize = 4;

/// The key in `path`, a `.params`, or a `.fbkey` of the same name beside it that is not older.
fn key_of_file(path: &Path) -> Result<Arc<ProvingKey>> {
    let converted = path.with_extension("fbkey");
    let state = |path: &Path| -> Result<File> {
        let metadata = std::fs::metadata(path).map_err(Error::io(path))?;
        let (bytes, modified) = (metadata.len(), metadata.modified().ok());
        Ok(File { path: path.to_owned(), bytes, modified })
    };
    let file = state(path)?;
    let file = match state(&converted) {
        Ok(converted) if converted.modified >= file.modified => converted,
        _ => file,
    };
    // Loading one key twice at once would help nobody.
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = loaded.iter().position(|(known, _)| *known == file) {
        let known = loaded.remove(known);
        let key = known.1.clone();
        loaded.push(known);
        return Ok(key);
    }
    let check = CheckedKeys::of_user().map_or(Check::Always, Check::Once);
    let LoadedKey { key, .. } = load_key(&file.path, &check, &Silent)?;
    let key = Arc::new(key);
    loaded.retain(|(known, _)| known.path != file.path);
    if loaded.len() == KEPT {
        loaded.remove(0);
    }
    loaded.push((file, key.clone()));
    Ok(key)
}

/// The modules are alike but for the crate.
macro_rules! bellperson {
    ($(#[$doc:meta])* $module:ident) => {
        $(#[$doc])*
        ///
        /// ```no_run
        #[doc = concat!("# use ", stringify!($module), " as bellperson;")]
        /// # fn prove<C: bellperson::Circuit<blstrs::Scalar> + Send>(
        /// #     circuits: Vec<C>,
        /// #     params: &bellperson::groth16::Parameters<blstrs::Bls12>,
        /// #     rng: &mut impl rand_core::RngCore,
        /// # ) -> Result<(), bellperson::SynthesisError> {
        #[doc = concat!("use forebay::", stringify!($module), "::create_random_proof_batch; // was: bellperson::groth16::")]
        ///
        /// let proofs = create_random_proof_batch(circuits, params, rng)?;
        /// # Ok(())
        /// # }
        /// ```
        pub mod $module {
            use std::io;
            use std::sync::Arc;

            use $module::groth16::{MappedParameters, Parameters, Proof, VerifyingKey};
            use $module::{Circuit, SynthesisError};
            use blstrs::{Bls12, G1Affine, G2Affine, Scalar};
            use ff::Field as _;
            use pairing::{Engine as Pairing, MultiMillerLoop};
            use rand_core::RngCore;

            use super::{Points, encoded, g1, g2, key_of_file};
            use crate::bellpepper::fr;
            use crate::circuit::Sizes;
            use crate::engine::Priority;
            use crate::groth16::Blinding;
            use crate::key::{self, ProvingKey};
            use crate::{Error, Result, bellpepper02, proof};

            pub use super::{engine, use_engine};

            /// What the functions take as a key.
            pub trait KeySource<E> {
                /// The key in the form that is computed with.
                ///
                /// # Errors
                /// If it is no key.
                fn proving_key(&self) -> Result<Arc<ProvingKey>>;
            }

            /// Points are taken over as they are, which is done once, as long as someone has these parameters; a wrong one gives no
            /// proof, since each is verified.
            impl KeySource<Bls12> for &Parameters<Bls12> {
                fn proving_key(&self) -> Result<Arc<ProvingKey>> {
                    points(self).kept_key()
                }
            }

            /// The file that is mapped is read once, and checked as every key of this crate; a `.fbkey` of the same name beside it is
            /// taken instead, unless it is older.
            impl KeySource<Bls12> for &MappedParameters<Bls12> {
                fn proving_key(&self) -> Result<Arc<ProvingKey>> {
                    key_of_file(&self.param_file_path)
                }
            }

            impl KeySource<Bls12> for &Arc<ProvingKey> {
                fn proving_key(&self) -> Result<Arc<ProvingKey>> {
                    Ok(Arc::clone(self))
                }
            }

            /// bellperson's verifying key as ours.
            pub fn verifying_key(vk: &VerifyingKey<Bls12>) -> key::VerifyingKey {
                key::VerifyingKey {
                    alpha_g1: g1(&vk.alpha_g1),
                    beta_g2: g2(&vk.beta_g2),
                    gamma_g2: g2(&vk.gamma_g2),
                    delta_g2: g2(&vk.delta_g2),
                    ic: vk.ic.iter().map(g1).collect(),
                }
            }

            /// bellperson's key as ours. No point is checked.
            ///
            /// # Errors
            /// If its parts do not fit together.
            pub fn proving_key(params: &Parameters<Bls12>) -> Result<ProvingKey> {
                points(params).key()
            }

            fn points(params: &Parameters<Bls12>) -> Points<'_> {
                let Parameters { vk, h, l, a, b_g1, b_g2 } = params;
                let [beta_g1, delta_g1] = [g1(&vk.beta_g1), g1(&vk.delta_g1)];
                let vk = verifying_key(vk);
                Points { vk, beta_g1, delta_g1, in_g1: [h, l, a, b_g1], b_g2 }
            }

            /// A proof as bellperson's.
            pub fn proof(proof: &proof::Proof) -> Proof<Bls12> {
                of_proof(proof)
            }

            fn of_proof<E>(proof: &proof::Proof) -> Proof<E>
            where
                E: MultiMillerLoop + Pairing<Fr = Scalar, G1Affine = G1Affine, G2Affine = G2Affine>,
            {
                let in_g1 = |point| {
                    G1Affine::from_uncompressed_unchecked(&encoded(point)).expect("an encoding of ours")
                };
                let b = G2Affine::from_uncompressed_unchecked(&encoded(&proof.b));
                Proof { a: in_g1(&proof.a), b: b.expect("an encoding of ours"), c: in_g1(&proof.c) }
            }

            fn error(error: Error) -> SynthesisError {
                match error {
                    Error::Unsatisfied(_) => SynthesisError::Unsatisfiable,
                    other => SynthesisError::IoError(io::Error::other(other)),
                }
            }

            fn prove<E, C, P>(
                circuits: Vec<C>,
                params: P,
                r: Vec<Scalar>,
                s: Vec<Scalar>,
                priority: Priority,
            ) -> Result<Vec<Proof<E>>, SynthesisError>
            where
                E: MultiMillerLoop + Pairing<Fr = Scalar, G1Affine = G1Affine, G2Affine = G2Affine>,
                C: Circuit<Scalar> + Send,
                P: KeySource<E>,
            {
                let lengths = [circuits.len(), r.len(), s.len()];
                if lengths != [circuits.len(); 3] {
                    let lengths = format!("{lengths:?} circuits, r and s");
                    return Err(SynthesisError::IncompatibleLengthVector(lengths));
                }
                if circuits.is_empty() {
                    return Ok(Vec::new());
                }
                let (key, engine) = (params.proving_key().map_err(error)?, engine().map_err(error)?);
                let sizes = Sizes::of_key(&key);
                let partition = |(circuit, (r, s)): (C, (&Scalar, &Scalar))| {
                    let (key, sizes) = (&*key, &sizes);
                    let make = move || bellpepper02::assignment(key, circuit, sizes);
                    // The caller gave them, or a generator of random numbers of his.
                    (make, Blinding::fixed_for_testing(fr(r), fr(s)))
                };
                let partitions = circuits.into_iter().zip(r.iter().zip(&s)).map(partition).collect();
                let bytes = { let sizes = sizes.clone(); move || sizes.bytes() };
                let proved = engine.prove_borrowed("bellperson's batch", key.clone(), priority, bytes, partitions);
                Ok(proved.map_err(error)?.iter().map(|proved| of_proof(&proved.proof)).collect())
            }

            /// r and s of `count` proofs, in bellperson's order.
            fn random<R: RngCore>(count: usize, rng: &mut R) -> [Vec<Scalar>; 2] {
                [(); 2].map(|()| (0..count).map(|_| Scalar::random(&mut *rng)).collect())
            }

            bellperson!(@functions Priority::Normal,
                create_proof, create_proof_batch, create_random_proof, create_random_proof_batch);
            bellperson!(@functions Priority::High,
                create_proof_in_priority, create_proof_batch_in_priority,
                create_random_proof_in_priority, create_random_proof_batch_in_priority);
        }
    };
    (@functions $priority:expr, $one:ident, $batch:ident, $random:ident, $random_batch:ident) => {
        /// One proof, with r and s from the caller; they must be random and secret.
        ///
        /// # Errors
        /// [`SynthesisError::Unsatisfiable`] if a row does not hold; whatever else an engine may fail with, as
        /// [`SynthesisError::IoError`] with the [`Error`](crate::Error) inside.
        pub fn $one<E, C, P: KeySource<E>>(
            circuit: C,
            params: P,
            r: E::Fr,
            s: E::Fr,
        ) -> Result<Proof<E>, SynthesisError>
        where
            E: MultiMillerLoop + Pairing<Fr = Scalar, G1Affine = G1Affine, G2Affine = G2Affine>,
            C: Circuit<E::Fr> + Send,
        {
            Ok(prove(vec![circuit], params, vec![r], vec![s], $priority)?.remove(0))
        }

        /// A proof of each circuit, with r and s from the caller; they must be random and secret.
        ///
        /// # Errors
        /// As for one.
        pub fn $batch<E, C, P: KeySource<E>>(
            circuits: Vec<C>,
            params: P,
            r: Vec<E::Fr>,
            s: Vec<E::Fr>,
        ) -> Result<Vec<Proof<E>>, SynthesisError>
        where
            E: MultiMillerLoop + Pairing<Fr = Scalar, G1Affine = G1Affine, G2Affine = G2Affine>,
            C: Circuit<E::Fr> + Send,
        {
            prove(circuits, params, r, s, $priority)
        }

        /// One proof, with r and s from `rng`.
        ///
        /// # Errors
        /// As with r and s from the caller.
        pub fn $random<E, C, R, P: KeySource<E>>(
            circuit: C,
            params: P,
            rng: &mut R,
        ) -> Result<Proof<E>, SynthesisError>
        where
            E: MultiMillerLoop + Pairing<Fr = Scalar, G1Affine = G1Affine, G2Affine = G2Affine>,
            C: Circuit<E::Fr> + Send,
            R: RngCore,
        {
            Ok($random_batch(vec![circuit], params, rng)?.remove(0))
        }

        /// A proof of each circuit, with r and s from `rng`, all r before all s.
        ///
        /// # Errors
        /// As with r and s from the caller.
        pub fn $random_batch<E, C, R, P: KeySource<E>>(
            circuits: Vec<C>,
            params: P,
            rng: &mut R,
        ) -> Result<Vec<Proof<E>>, SynthesisError>
        where
            E: MultiMillerLoop + Pairing<Fr = Scalar, G1Affine = G1Affine, G2Affine = G2Affine>,
            C: Circuit<E::Fr> + Send,
            R: RngCore,
        {
            let [r, s] = random(circuits.len(), rng);
            prove(circuits, params, r, s, $priority)
        }
    };
}

#[cfg(feature = "bellperson026")]
bellperson! {
    /// For callers of bellperson 0.26.
    bellperson026
}

#[cfg(feature = "bellperson027")]
bellperson! {
    /// For callers of bellperson 0.27: Filecoin's storage-proofs 19.
    bellperson027
}
